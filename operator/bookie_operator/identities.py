"""Makes and renews the certificates by which the operator and the bookies of a cluster know each other.

    authority     read, renewed, stored      before anything that it signs is shown to anybody
    server's      read, renewed, published   in the cluster's namespace, with whom to trust and whom to obey
    client's      made, renewed              in this process's memory

The same for the data port where the spec leaves its certificates to the operator: an authority of its own, which
commands nothing.

It runs once a pass, from what is stored; every step may be repeated. After a crash at any step, the next pass finds
what it needs.
"""

import datetime as dt
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from bookie.base.errors import BadInput
from bookie.rpc.client import AdminCredentials
from bookie_operator.certificates import authority as authorities
from bookie_operator.certificates import leaf
from bookie_operator.certificates.authority import Authority, Token
from bookie_operator.gateways.kube import Kube, Manifest
from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.plan import ownership
from bookie_operator.resources import data_security
from bookie_operator.resources import identity as secrets
from bookie_operator.resources.identity import Purpose

logger = logging.getLogger(__name__)


class Wallet(Protocol):
    """The store of client certificates: `AdminPorts`."""

    def use(self, uid: str, identity: AdminCredentials) -> None: ...

    def identity(self, uid: str) -> AdminCredentials | None: ...


class Identities:
    """Makes and renews the certificates of all clusters. `namespace`: the operator's; `process`: the id of this one."""

    def __init__(
        self,
        kube: Kube,
        store: Callable[[Manifest, Manifest | None, str], Awaitable[None]],
        wallet: Wallet,
        wall_ms: Callable[[], int],
        token: Token,
        *,
        namespace: str,
        process: str,
    ) -> None:
        self._kube = kube
        self._store = store
        self._wallet = wallet
        self._wall_ms = wall_ms
        self._token = token
        self._namespace = namespace
        self._process = process

    async def ensure(self, cluster: Cluster) -> str:
        """Make and renew the certificates of `cluster`; return why they are not where its bookies read them: others'
        objects have the names; "" when they are. Raises KubeError when the pass must be repeated."""
        now, strange = dt.datetime.fromtimestamp(self._wall_ms() / 1000, dt.UTC), []
        if cluster.spec.security.tls.is_made_here:
            strange += await self._protect_data(cluster, await self._authority(cluster, now, secrets.DATA), now)
        authority = await self._authority(cluster, now, secrets.ADMIN)
        strange += await self._publish(cluster, authority, now)
        self._prove(cluster, authority, now)
        return "; ".join(strange)

    def can_look(self, cluster: Cluster) -> bool:
        """Return True when this process has a certificate to show to the bookies of `cluster`."""
        return self._wallet.identity(cluster.uid) is not None

    async def forget(self, namespace: str, name: str) -> None:
        """Remove the authority of a cluster that is gone, and what it published beside other clusters of its namespace:
        a Secret holds 1 MiB. Raises KubeError when the pass must be repeated."""
        for purpose in (secrets.ADMIN, secrets.DATA):
            await self._withdraw(namespace, name, purpose)
            live = await self._kube.get("Secret", self._namespace, names.ADMIN_AUTHORITIES)
            if any(secrets.is_of(purpose, key, namespace, name) for key in (live or {}).get("data") or ()):
                manager = secrets.manager(namespace, name, purpose)
                await self._store(secrets.authorities(self._namespace, {}), live, manager)

    async def _withdraw(self, namespace: str, name: str, purpose: Purpose) -> None:
        live = await self._kube.get("Secret", namespace, purpose.secret)
        if live is None or not any(f"{name}.{file}" in (live.get("data") or {}) for file in purpose.files):
            return
        # With its version: of a Secret that Kubernetes deletes meanwhile nothing may be made anew.
        manifest = secrets.without_files(namespace, purpose, live["metadata"].get("resourceVersion", ""))
        await self._store(manifest, live, secrets.manager(namespace, name, purpose))

    async def _authority(self, cluster: Cluster, now: dt.datetime, purpose: Purpose) -> Authority:
        live = await self._kube.get("Secret", self._namespace, names.ADMIN_AUTHORITIES)
        text = secrets.decoded(live, secrets.entry(cluster, purpose))
        stored = None
        if text:
            try:
                stored = authorities.load(text)
            except BadInput as error:
                logger.warning("authority made anew cluster=%s/%s reason=%s", cluster.namespace, cluster.name, error)
        authority = authorities.renewed(stored, f"{purpose.word} {cluster.uid}", now, self._token)
        if authority is not stored:
            # CRASH: stored before it signs anything; else a bookie could trust what nobody can sign for any more.
            version = live["metadata"].get("resourceVersion", "") if live is not None else ""
            entries = {secrets.entry(cluster, purpose): authorities.dump(authority)}
            manifest = secrets.authorities(self._namespace, entries, version)
            await self._store(manifest, live, secrets.manager(cluster.namespace, cluster.name, purpose))
        return authority

    async def _protect_data(self, cluster: Cluster, authority: Authority, now: dt.datetime) -> list[str]:
        """Publish what the bookies show on their data port, and whom clients may trust; return why not."""
        live = await self._kube.get("Secret", cluster.namespace, names.DATA_CERTIFICATES)
        files, hosts = secrets.files_of(cluster, live, secrets.DATA), data_security.hosts(cluster)
        manager = secrets.manager(cluster.namespace, cluster.name, secrets.DATA)
        # CRASH: clients learn of an authority no later than bookies do, and both a week before it signs.
        told = secrets.data_authority(cluster, authority.bundle())
        known = await self._kube.get("ConfigMap", cluster.namespace, names.data_authority(cluster.name))
        if strange := _strangers(cluster, known, live):
            return strange
        if (known or {}).get("data") != told["data"]:
            await self._store(told, known, manager)
        wanted = files | {"ca.crt": authority.bundle()}
        is_due = leaf.is_due(files["tls.crt"], files["tls.key"], authority, now, leaf.SERVER)
        if is_due or not leaf.has_hosts(files["tls.crt"], hosts):
            made = leaf.data_server(authority, cluster.uid, hosts, now, self._token)
            wanted |= {"tls.crt": made.certificate, "tls.key": made.key}
        if wanted != files:
            await self._store(secrets.certificates(cluster, wanted, secrets.DATA), live, manager)
        return []

    async def _publish(self, cluster: Cluster, authority: Authority, now: dt.datetime) -> list[str]:
        live = await self._kube.get("Secret", cluster.namespace, names.ADMIN_CERTIFICATES)
        if strange := _strangers(cluster, live):
            return strange
        files = secrets.files_of(cluster, live)
        wanted = files | {
            "ca.crt": authority.bundle(),
            "clients": f"{leaf.operator_name(cluster.uid, self._namespace)}\n".encode(),
        }
        if leaf.is_due(files["tls.crt"], files["tls.key"], authority, now, leaf.SERVER):
            made = leaf.server(authority, cluster.uid, now, self._token)
            wanted |= {"tls.crt": made.certificate, "tls.key": made.key}
        if wanted != files:
            manifest = secrets.certificates(cluster, wanted)
            await self._store(manifest, live, secrets.manager(cluster.namespace, cluster.name))
        return []

    def _prove(self, cluster: Cluster, authority: Authority, now: dt.datetime) -> None:
        known = self._wallet.identity(cluster.uid)
        shown = (known.certificate, known.key) if known is not None else (b"", b"")
        if leaf.is_due(*shown, authority, now, leaf.CLIENT):
            name = leaf.operator_name(cluster.uid, self._namespace)
            made = leaf.client(authority, name, self._process, now, self._token)
            shown = (made.certificate, made.key)
        self._wallet.use(cluster.uid, AdminCredentials(*shown, authority.bundle(), leaf.server_name(cluster.uid)))


def _strangers(cluster: Cluster, *found: Manifest | None) -> list[str]:
    return [why for one in found if (why := ownership.shared_stranger(one, cluster))]
