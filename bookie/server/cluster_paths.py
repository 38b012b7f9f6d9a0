"""Answers the admin paths of Java's bookie that concern the whole cluster, from the metadata store.

    GET      /api/v1/ledger/list                              every id; print_metadata=true [page=N, a hundred each]
    GET      /api/v1/ledger/metadata?ledger_id=N
    GET      /api/v1/bookie/list_bookies                      writable ones; type=ro, print_hostnames=true
    GET      /api/v1/bookie/cluster_info
    GET PUT  /api/v1/autorecovery/status                      ?enabled=true
    GET      /api/v1/autorecovery/who_is_auditor
    GET      /api/v1/autorecovery/list_under_replicated_ledger  missingreplica, excludingmissingreplica,
                                                                printmissingreplica
    GET PUT  /api/v1/autorecovery/lost_bookie_recovery_delay  {"delay_seconds": N}
    PUT      /api/v1/autorecovery/trigger_audit

Where Java answers 404 for "there is none", so do these. Never: a ledger's password (Java shows it), and nothing here
deletes or moves data: that has a plan and wants a person (`bookie ledger delete`, `bookie cluster recover-bookie`).
Rules: HttpRouter.java and server/http/service of BookKeeper 4.17.
"""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from bookie.base import errors, ids
from bookie.base.ids import LedgerId
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.metadata import paths, registration
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.http import JSON, Handler, HttpAnswer, HttpRequest
from bookie.ports.metadata_store import MetadataStore, find_children
from bookie.wire.digest import DigestType

LEDGERS_PER_PAGE = 100
# By the names of Java's client API.
_DIGESTS: dict[int, str] = {kind: "MAC" if kind is DigestType.HMAC else kind.name for kind in DigestType}


class ClusterPaths:
    """Answers those paths. `store` returns the session to read through; not the bookie's own, which a long list would
    keep busy. `uri`: which cluster."""

    def __init__(self, store: Callable[[], Awaitable[MetadataStore]], uri: str) -> None:
        self._store = store
        self._uri = paths.parse_uri(uri)
        self.answers: Mapping[tuple[str, str], Handler] = {
            ("GET", "/api/v1/ledger/list"): self._list_ledgers,
            ("GET", "/api/v1/ledger/metadata"): self._ledger,
            ("GET", "/api/v1/bookie/list_bookies"): self._list_bookies,
            ("GET", "/api/v1/bookie/cluster_info"): self._cluster_info,
            ("GET", "/api/v1/autorecovery/status"): self._status,
            ("PUT", "/api/v1/autorecovery/status"): self._set_status,
            ("GET", "/api/v1/autorecovery/who_is_auditor"): self._auditor,
            ("GET", "/api/v1/autorecovery/list_under_replicated_ledger"): self._under_replicated,
            ("GET", "/api/v1/autorecovery/lost_bookie_recovery_delay"): self._delay,
            ("PUT", "/api/v1/autorecovery/lost_bookie_recovery_delay"): self._set_delay,
            ("PUT", "/api/v1/autorecovery/trigger_audit"): self._audit,
        }

    # ---- ledgers -----------------------------------------------------------------------------------------------------

    async def _list_ledgers(self, request: HttpRequest) -> HttpAnswer:
        ledgers = await self._ledgers()
        if request.query.get("print_metadata") != "true":
            return json_answer({str(ledger_id): None async for ledger_id in ledgers.iterate()})
        page = _number(request, "page") if "page" in request.query else None
        if page is not None and page < 1:
            raise errors.BadInput(f"page={page} is not possible: pages begin at 1")
        found: dict[str, Any] = {}
        async for ledger_id in _page(ledgers, page):
            try:
                found[str(ledger_id)] = facts_of(ledger_id, (await ledgers.get(ledger_id))[0])
            except errors.LedgerMissing:
                continue  # deleted meanwhile
            except errors.BadInput as error:
                found[str(ledger_id)] = {"problem": str(error)}
        return json_answer(found)

    async def _ledger(self, request: HttpRequest) -> HttpAnswer:
        ledger_id = ids.parse_ledger_id(request.query.get("ledger_id", ""))
        metadata, _ = await (await self._ledgers()).get(ledger_id)
        return json_answer({str(ledger_id): facts_of(ledger_id, metadata)})

    # ---- bookies -----------------------------------------------------------------------------------------------------

    async def _list_bookies(self, request: HttpRequest) -> HttpAnswer:
        store, root = await self._store(), self._uri.root
        directory = paths.readonly(root) if request.query.get("type") == "ro" else paths.available(root)
        with_hosts = request.query.get("print_hostnames") == "true"
        found: dict[str, str | None] = {}
        for name in await _registered(store, directory):
            found[name] = await _host_of(store, f"{directory}/{name}", name) if with_hosts else None
        return json_answer(found)

    async def _cluster_info(self, request: HttpRequest) -> HttpAnswer:
        store, root = await self._store(), self._uri.root
        recovery = AutoRecovery(store, root)
        writable = await _registered(store, paths.available(root))
        read_only = await _registered(store, paths.readonly(root))
        known = await _registered(store, paths.cookies(root))
        auditor = await recovery.auditor()
        gone = [name for name in known if name not in writable and name not in read_only]
        return json_answer(
            {
                "auditorElected": auditor is not None,
                "auditorId": auditor or "",
                "clusterUnderReplicated": bool([marked async for marked in recovery.marked()]),
                "ledgerReplicationEnabled": await recovery.is_enabled(),
                "totalBookiesCount": len(known),
                "writableBookiesCount": len(writable),
                "readonlyBookiesCount": len(read_only),
                "unavailableBookiesCount": len(gone),
            }
        )

    # ---- auto-recovery -----------------------------------------------------------------------------------------------

    async def _status(self, request: HttpRequest) -> HttpAnswer:
        return json_answer({"enabled": await (await self._recovery()).is_enabled()})

    async def _set_status(self, request: HttpRequest) -> HttpAnswer:
        wanted = request.query.get("enabled", "").lower()
        if wanted not in ("true", "false"):
            raise errors.BadInput("say ?enabled=true or ?enabled=false")
        await (await self._recovery()).set_enabled(enabled=wanted == "true")
        return await self._status(request)

    async def _auditor(self, request: HttpRequest) -> HttpAnswer:
        auditor = await (await self._recovery()).auditor()
        return text_answer(404, "No auditor elected") if auditor is None else text_answer(200, f"Auditor: {auditor}")

    async def _under_replicated(self, request: HttpRequest) -> HttpAnswer:
        lacking, not_lacking = request.query.get("missingreplica"), request.query.get("excludingmissingreplica")
        found: dict[str, list[str]] = {}
        async for marked in (await self._recovery()).marked():
            missing = [str(bookie_id) for bookie_id in marked.record.missing]
            if (lacking and lacking not in missing) or (not_lacking and not_lacking in missing):
                continue
            found[str(marked.ledger_id)] = missing
        if not found:
            return text_answer(404, "No under replicated ledgers found")
        shown = found if request.query.get("printmissingreplica") == "true" else [int(number) for number in found]
        return json_answer(shown)

    async def _delay(self, request: HttpRequest) -> HttpAnswer:
        seconds = await (await self._recovery()).delay_s()
        if seconds is None:
            return text_answer(404, "lostBookieRecoveryDelay is not set: no auditor has run here yet")
        return text_answer(200, f"lostBookieRecoveryDelay value: {seconds}")

    async def _set_delay(self, request: HttpRequest) -> HttpAnswer:
        seconds = field_of(request, "delay_seconds")
        if type(seconds) is not int:
            raise errors.BadInput('the body must be like {"delay_seconds": 60}')
        await (await self._recovery()).set_delay_s(seconds)
        return text_answer(200, f"Success set lostBookieRecoveryDelay to {seconds}")

    async def _audit(self, request: HttpRequest) -> HttpAnswer:
        await (await self._recovery()).trigger_audit()
        return text_answer(200, "Success trigger audit.")

    # ---- where it comes from -----------------------------------------------------------------------------------------

    async def _recovery(self) -> AutoRecovery:
        return AutoRecovery(await self._store(), self._uri.root)

    async def _ledgers(self) -> LedgerStore:
        return await cluster.open_ledgers(await self._store(), self._uri)


async def _page(ledgers: LedgerStore, page: int | None) -> AsyncIterator[LedgerId]:
    """Yield the ids of one page, or all."""
    first = 0 if page is None else (page - 1) * LEDGERS_PER_PAGE
    place = 0
    async for ledger_id in ledgers.iterate():
        if page is not None and place >= first + LEDGERS_PER_PAGE:
            return
        if place >= first:
            yield ledger_id
        place += 1


async def _registered(store: MetadataStore, directory: str) -> list[str]:
    return [name for name in await find_children(store, directory) if name != "readonly"]


async def _host_of(store: MetadataStore, path: str, name: str) -> str | None:
    try:
        info = registration.load_service_info(ids.parse_bookie_id(name), (await store.get(path)).data)
    except (errors.NodeMissing, errors.BadInput):
        return None
    return None if info.bookie_endpoint is None else info.bookie_endpoint.host


def _number(request: HttpRequest, name: str) -> int:
    try:
        return int(request.query[name])
    except ValueError:
        raise errors.BadInput(f"{name}={request.query[name]} is not a number") from None


def facts_of(ledger_id: LedgerId, metadata: LedgerMetadata) -> dict[str, Any]:
    """Return the fields that Java shows of a LedgerMetadata, without its password."""
    return {
        "ledgerId": ledger_id,
        "metadataFormatVersion": metadata.format_version,
        "ensembleSize": metadata.ensemble_size,
        "writeQuorumSize": metadata.write_quorum,
        "ackQuorumSize": metadata.ack_quorum,
        "state": metadata.state.name,
        "length": metadata.length if metadata.is_closed else 0,
        "lastEntryId": metadata.last_entry if metadata.is_closed else -1,
        "digestType": _DIGESTS.get(metadata.digest_type, str(metadata.digest_type)),
        "ctime": metadata.ctime_ms,
        "ctoken": metadata.ctoken,
        "closed": metadata.is_closed,
        "customMetadata": {key: base64.b64encode(value).decode() for key, value in metadata.custom},
        "allEnsembles": {
            str(segment.first_entry): [{"id": bookie_id} for bookie_id in segment.bookies]
            for segment in metadata.segments
        },
    }


def field_of(request: HttpRequest, name: str) -> object:
    """Return a field of the JSON object in the request's body; None when the body has none of that name."""
    try:
        return json.loads(request.body)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def text_answer(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status, f"{text}\n".encode())


def json_answer(facts: object) -> HttpAnswer:
    return HttpAnswer(200, json.dumps(facts).encode(), JSON)
