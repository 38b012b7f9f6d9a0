"""The Kubernetes API as five verbs over raw JSON (spec/operator.md#K32): live reads, server-side apply, nothing cached.

Each call has a deadline and no retry of its own: the queue retries whole passes. Absent is None; every other refusal is
a KubeError that says what was asked and what the API server answered.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

from bookie.base.errors import BookieError
from bookie_operator.model import names

Manifest = dict[str, Any]
CALL_DEADLINE_S = 10.0
CLOCKS_AGREE_MS = 60_000  # a Date header has whole seconds, and answers take some
RETRY_AFTER_MAX_MS = 120_000  # a number that is wrong must not make a fleet unattended for hours
_QUOTA = re.compile(r"is forbidden: exceeded quota: ([^,\s]+)")
# How 403 reads when admission says no (a quota, a limit, a namespace that ends, a policy, a webhook): a missing right
# reads `is forbidden: User "..." cannot ...`.
_ADMISSION = re.compile(r"is forbidden: (?!User |cannot set )|denied (?:the )?request")


class KubeError(BookieError):
    """The API server refused, or could not be reached (status 0)."""

    def __init__(self, what: str, status: int, message: str, retry_after_ms: int = 0) -> None:
        """`retry_after_ms`: how long the API server asks us to wait (429, 503); 0 = it does not say."""
        self.retry_after_ms = retry_after_ms
        super().__init__(f"{what}: {message}" if status == 0 else f"{what}: {status} {message}")
        self.http_status = status

    @property
    def is_conflict(self) -> bool:
        return self.http_status == 409

    @property
    def is_refusal(self) -> bool:
        """Return True when the same call would be refused again: it is invalid, or admission says no."""
        return self.http_status in (400, 403, 422)

    @property
    def is_failure(self) -> bool:
        """Return True when the API server could not do what it was asked: it, or a webhook that it calls, is down or
        has too much to do. One that waits for a webhook until we no longer do gives no answer."""
        return self.http_status in (0, 410, 429) or self.http_status >= 500

    @property
    def quota(self) -> str:
        """Return the name of the ResourceQuota that is used up; "" for any other error."""
        found = _QUOTA.search(str(self)) if self.http_status == 403 else None
        return found[1] if found is not None else ""


class KubeForbidden(KubeError):
    """The operator lacks the permission. Another attempt would be refused too."""


@dataclass(frozen=True, slots=True)
class Resource:
    prefix: str
    plural: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the apiVersion of a path: /apis/apps/v1 -> apps/v1; /api/v1 -> v1."""
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")


RESOURCES: dict[str, Resource] = {
    names.KIND: Resource(f"/apis/{names.API_VERSION}", names.PLURAL),
    names.OPERATION_KIND: Resource(f"/apis/{names.API_VERSION}", names.OPERATION_PLURAL),
    "StatefulSet": Resource("/apis/apps/v1", "statefulsets"),
    "Deployment": Resource("/apis/apps/v1", "deployments"),
    "ControllerRevision": Resource("/apis/apps/v1", "controllerrevisions"),
    "Job": Resource("/apis/batch/v1", "jobs"),
    "PodDisruptionBudget": Resource("/apis/policy/v1", "poddisruptionbudgets"),
    "Service": Resource("/api/v1", "services"),
    "ConfigMap": Resource("/api/v1", "configmaps"),
    "Secret": Resource("/api/v1", "secrets"),
    "ServiceAccount": Resource("/api/v1", "serviceaccounts"),
    "Pod": Resource("/api/v1", "pods"),
    "PersistentVolumeClaim": Resource("/api/v1", "persistentvolumeclaims"),
    "PersistentVolume": Resource("/api/v1", "persistentvolumes", is_namespaced=False),
    "Node": Resource("/api/v1", "nodes", is_namespaced=False),
    "Event": Resource("/apis/events.k8s.io/v1", "events"),
    "Lease": Resource("/apis/coordination.k8s.io/v1", "leases"),
}


class KubeReader(Protocol):
    """The reads by which a look asks an API server."""

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None: ...

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        """List the items of one namespace ("" = of all), selected by labels (`selector`) and fields."""
        ...


class Kube(KubeReader, Protocol):
    """Every call that the operator makes to an API server, writes too."""

    async def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        """Apply server-side, with force. metadata.uid and .resourceVersion in `manifest` are preconditions (409); what
        is not there is made, also where a version is given."""
        ...

    async def replace_status(self, manifest: Manifest, *, manager: str) -> Manifest:
        """Replace the status whole, whoever wrote what there, over the resourceVersion in `manifest`, which must be
        given (409 when the object changed)."""
        ...

    async def create(self, manifest: Manifest) -> Manifest:
        """POST an object that is not there yet (409 when one has its name)."""
        ...

    async def merge(self, manifest: Manifest) -> Manifest:
        """Merge `manifest` into the object whose resourceVersion it has (409 when the object changed)."""
        ...

    async def replace(self, manifest: Manifest) -> Manifest:
        """PUT with the resourceVersion in `manifest` as precondition (409 when the object changed)."""
        ...

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str, is_orphaning: bool = False
    ) -> None:
        """Delete exactly that object (409 when it is another one or changed). The objects that it owns go first: it
        stays, marked as terminating, until they are gone; with `is_orphaning` they stay, without an owner. An absent
        object counts as deleted."""
        ...


class ApiServer:
    """The API server, reached by the transport of kubernetes.aio. Use as an async context manager."""

    def __init__(
        self,
        configuration: Configuration,
        asked: Callable[[str, str, int], None] = lambda _verb, _kind, _code: None,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`asked`: hears of every call its HTTP verb, kind and status (0 = no answer). `wall_ms`: the clock whose
        distance to the API server's is told."""
        self.ahead_ms = 0  # how far our clock is ahead of the API server's, by its last answer that said the time
        self._wall_ms = wall_ms
        self._client = ApiClient(configuration)
        self._asked = asked

    async def __aenter__(self) -> "ApiServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        return await self._ask("GET", kind, namespace, name, absent_is_none=True)

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        wanted = {"labelSelector": selector, "fieldSelector": fields}
        query = {name: value for name, value in wanted.items() if value}
        answer = await self._ask("GET", kind, namespace, "", query=query)
        assert answer is not None
        # Items of a list carry neither: given back, so that they compare with what we apply.
        typed = {"apiVersion": RESOURCES[kind].api_version, "kind": kind}
        return [item | typed for item in answer.get("items") or ()]

    async def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        query = {"fieldManager": manager, "force": "true"}
        return await self._write("PATCH", manifest, manifest, query=query, content_type="application/apply-patch+yaml")

    async def replace_status(self, manifest: Manifest, *, manager: str) -> Manifest:
        # Not applied: what another manager wrote into it would stay there, and be read as ours; half of it, of two
        # managers, fails as a null. Not PUT: that asks for the whole object.
        version = manifest["metadata"]["resourceVersion"]
        whole = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": manifest["status"]},
        ]
        return await self._write(
            "PATCH",
            manifest,
            whole,
            subresource="status",
            query={"fieldManager": manager},
            content_type="application/json-patch+json",
        )

    async def create(self, manifest: Manifest) -> Manifest:
        namespace = manifest["metadata"].get("namespace", "")
        return _present(await self._ask("POST", manifest["kind"], namespace, "", body=manifest))

    async def merge(self, manifest: Manifest) -> Manifest:
        return await self._write("PATCH", manifest, manifest, content_type="application/merge-patch+json")

    async def replace(self, manifest: Manifest) -> Manifest:
        return await self._write("PUT", manifest, manifest)

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str, is_orphaning: bool = False
    ) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Orphan" if is_orphaning else "Foreground",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
        }
        await self._ask("DELETE", kind, namespace, name, body=options, absent_is_none=True)

    async def _write(
        self, method: str, manifest: Manifest, body: Manifest | Sequence[Manifest], **how: Any
    ) -> Manifest:
        """Send `body` to the object that `manifest` names, and return that object as it is stored. `how`: as `_ask`."""
        kind, metadata = manifest["kind"], manifest["metadata"]
        namespace = metadata.get("namespace", "")
        return _present(await self._ask(method, kind, namespace, metadata["name"], body=body, **how))

    async def _ask(
        self,
        method: str,
        kind: str,
        namespace: str,
        name: str,
        *,
        subresource: str = "",
        query: dict[str, str] | None = None,
        body: Manifest | Sequence[Manifest] | None = None,
        content_type: str = "application/json",
        absent_is_none: bool = False,
    ) -> Manifest | None:
        path = _path(kind, namespace, name, subresource)
        what = f"{method} {path}"
        try:
            call = await self._client.param_serialize(
                method,
                path + (f"?{urlencode(query)}" if query else ""),
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(*call, _request_timeout=CALL_DEADLINE_S)
            data = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._asked(method, kind, 0)
            raise KubeError(what, 0, f"the API server cannot be reached: {error or type(error).__name__}") from error
        self._asked(method, kind, response.status)
        if (said_ms := _date_ms(response.headers.get("Date"))) is not None:
            ahead_ms = self._wall_ms() - said_ms
            self.ahead_ms = ahead_ms if abs(ahead_ms) > CLOCKS_AGREE_MS else 0
        if response.status == 404 and absent_is_none:
            return None
        if not 200 <= response.status <= 299:
            message = _message(data)
            is_right_missing = response.status == 403 and not _ADMISSION.search(message)
            refused = KubeForbidden if is_right_missing else KubeError
            raise refused(what, response.status, message, _retry_after_ms(response.headers.get("Retry-After")))
        answer: Manifest = json.loads(data)
        return answer


def _path(kind: str, namespace: str, name: str, subresource: str) -> str:
    resource = RESOURCES[kind]
    path = resource.prefix
    if resource.is_namespaced and namespace:
        path += f"/namespaces/{quote(namespace)}"
    path += f"/{resource.plural}"
    if name:
        path += f"/{quote(name)}"
    if subresource:
        path += f"/{subresource}"
    return path


def _retry_after_ms(header: str | None) -> int:
    """Return the milliseconds of a Retry-After header in seconds; 0 for none, and for a date, which no API server
    sends."""
    return min(int(header) * 1_000, RETRY_AFTER_MAX_MS) if header and header.isascii() and header.isdigit() else 0


def _date_ms(header: str | None) -> int | None:
    """Return the time of a Date header, Unix milliseconds; None for none, and for one that is no date."""
    try:
        return int(parsedate_to_datetime(header).timestamp() * 1_000) if header else None
    except (ValueError, OverflowError):
        return None


def _message(data: bytes) -> str:
    """Return the sentence in a metav1.Status, else the start of the data that came."""
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode(errors="replace")


def _present(answer: Manifest | None) -> Manifest:
    assert answer is not None, "only reads may find nothing"
    return answer
