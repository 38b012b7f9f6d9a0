"""CEL rules of the CRD (spec/operator.md#K16). Each names its field, says why, and what to try next.

`checks.py` holds the same rules in Python, for API servers that carry an older CRD. Rules that mention `oldSelf` are
transition rules: only the API server can know them. Rules that will relax when the feature behind them comes
(scale-down, expansion, layout change) say so.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic.config import JsonDict


@dataclass(frozen=True, slots=True)
class CelRule:
    """One x-kubernetes-validations entry. `field` is relative to the place of the rule, as the API server wants it.

    `name` is not in the CRD: `checks.py` says by it which rule is broken. A rule that only CEL checks has none.
    """

    cel: str
    message: str
    field: str = ""
    reason: str = "FieldValueInvalid"
    name: str = ""

    def as_schema(self) -> JsonDict:
        out: JsonDict = {"rule": self.cel, "message": self.message, "reason": self.reason}
        if self.field:
            out["fieldPath"] = self.field
        return out


def schema(rules: tuple[CelRule, ...]) -> JsonDict:
    return {"x-kubernetes-validations": [rule.as_schema() for rule in rules]}


DENIED_CONFIG = (
    "bookieId",
    "bookiePort",
    "adminPort",
    "adminTlsPort",
    "adminTlsDirectory",
    "adminTokenFile",
    "adminSocket",
    "metricsPort",
    "advertisedAddress",
    "listeningAddress",
    "listeningInterface",
    "useHostNameAsBookieID",
    "useShortHostName",
    "allowLoopback",
    "permittedStartupUsers",
    "journalDirectories",
    "journalDirectory",
    "ledgerDirectories",
    "indexDirectories",
    "metadataServiceUri",
    "zkServers",
    "zkLedgersRootPath",
    "ledgerManagerFactoryClass",
    "ledgerManagerType",
    "zkTimeout",
    # metadataService.security
    "zkEnableSecurity",
    "zkJaasFile",
    "zkJaasSectionName",
    "zookeeper.sasl.clientconfig",
    "zkDigestFile",
    "zkTlsEnabled",
    "zookeeper.client.secure",
    "zkTlsTrustStore",
    "zookeeper.ssl.trustStore.location",
    "zkTlsTrustStoreType",
    "zookeeper.ssl.trustStore.type",
    "zkTlsTrustStorePasswordPath",
    "zookeeper.ssl.trustStore.passwordPath",
    "zkTlsKeyStore",
    "zookeeper.ssl.keyStore.location",
    "zkTlsKeyStoreType",
    "zookeeper.ssl.keyStore.type",
    "zkTlsKeyStorePasswordPath",
    "zookeeper.ssl.keyStore.passwordPath",
    "zkTlsCertificatePath",
    "journalWriteData",
    "zone",
    "machine",
    "regeneration",
    "volumeProof",
    "allowSharedFilesystem",
    "copyRateBytesPerSecond",
    "shutdownTimeoutMs",
    "adminTokenFile",
    "autoRecoveryDaemonEnabled",
    "dataIntegrityChecking",
    "dataIntegrityStampMissingCookies",
    "allowStorageExpansion",
)

BOOKIES_MAX = 150  # of one cluster
# Of pods 55 characters: {name}-{zone}-{ordinal}; Kubernetes wants 63 at most in labels and host names.
CLUSTER_NAME_MAX = 30
CLUSTER_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
# Of volumes of a pod: the operator's own.
RESERVED_VOLUMES = "bookie-"
# Of labels and annotations: the operator's own (model/names.py).
RESERVED_KEYS = "bookie.dev/"

# At the root, because there alone a rule sees the status: a growth that Kubernetes cannot do is taken back in the spec,
# as far as no claim has got that size already (spec/operator.md#X1).
_REBUILT = "{storage}.layoutChange == 'RollingRebuild'"
_SIZES = {
    role: CelRule(
        f"self.spec.storage.{role}.volumes.all(n,"
        f" oldSelf.spec.storage.{role}.volumes.all(o, o.name != n.name"
        " || !quantity(n.size).isLessThan(quantity(o.size)))"
        " || (has(self.status) && has(self.status.expansion) && has(self.status.expansion.volumes)"
        " && self.status.expansion.volumes.exists(v, v.name == n.name"
        " && !quantity(n.size).isLessThan(quantity(v.size)))))"
        f" || {_REBUILT.format(storage='self.spec.storage')}",
        f"spec.storage.{role}.volumes: a size cannot be lowered, since no volume can shrink: keep it (while volumes"
        " expand, it may be set back to what status.expansion.volumes says), or set spec.storage.layoutChange:"
        " RollingRebuild, which moves the data of one bookie after the other",
        field=f".spec.storage.{role}",
        reason="FieldValueForbidden",
    )
    for role in ("journal", "ledgers", "index")
}

# The same of pools with volumes of their own. Pools are few and `_POOLS_ROW` is outermost: the API server's estimate of
# the cost is the product of all bounds.
_POOLS_ROW = "!has(self.spec.pools) || !has(oldSelf.spec.pools) || self.spec.pools.all(p, !has(p.storage){has}"


def _of_all(role: str, cel: str, message: str) -> CelRule:
    """Return a rule at the root about the volumes of a role."""
    return CelRule(
        cel,
        f"spec.storage.{role}.volumes: {message}",
        field=f".spec.storage.{role}",
        reason="FieldValueForbidden",
    )


def _of_pools(role: str, cel: str, message: str) -> CelRule:
    """Return the same about the volumes that pool `p` has of its own; `cel`: compares them with those that it had,
    `o`."""
    has = f" || !has(p.storage.{role})" if role == "index" else ""
    had = f" || !has(o.storage.{role})" if role == "index" else ""
    return CelRule(
        f"{_POOLS_ROW.format(has=has)} || oldSelf.spec.pools.all(o, o.name != p.name || !has(o.storage){had}"
        f" || {cel}))",
        f"spec.pools[].storage.{role}.volumes: {message}",
        field=".spec.pools",
        reason="FieldValueForbidden",
    )


def _pool_sizes(role: str) -> CelRule:
    return _of_pools(
        role,
        f"p.storage.{role}.volumes.all(n,"
        f" o.storage.{role}.volumes.all(m, m.name != n.name || !quantity(n.size).isLessThan(quantity(m.size)))"
        " || (has(self.status) && has(self.status.expansion) && has(self.status.expansion.volumes)"
        " && self.status.expansion.volumes.exists(v, v.name == n.name"
        " && !quantity(n.size).isLessThan(quantity(v.size)))))",
        "a size cannot be lowered, since no volume can shrink: keep it (while"
        " volumes expand, it may be set back to what status.expansion.volumes says)",
    )


# A bookie refuses directories in another order than its cookie has them. At the root, for the way back of a fleet that
# is in the midst of it (releases before took such an edit): nobody is stopped for it any more once it was refused.
_IS_UNDER_WAY = (
    "(has(self.status) && ((has(self.status.heldBookies) && self.status.heldBookies > 0)"
    " || (has(self.status.rollout) && has(self.status.rollout.changed)"
    " && self.status.rollout.changed.exists(c, c == 'spec.storage.{role}.volumes'))))"
)
_ORDER = (
    "the order of volumes cannot change, since each bookie's cookie has it, and a bookie that finds another one holds"
    " itself: put them in the order that they had"
)


# How many volumes of a role a bookie may have (model/storage.py).
VOLUMES_MAX = {"journal": 4, "ledgers": 16, "index": 4}


def _keeps_order(role: str, new: str, old: str) -> str:
    """Return the CEL of: the volumes of one list are the first of the other's, in the same order. Place by place: the
    API server's estimate of whatever makes another list of a list is far beyond its limits."""
    places = list(range(VOLUMES_MAX[role]))
    return f"{places}.all(i, i >= {new}.size() || i >= {old}.size() || {new}[i].name == {old}[i].name)"


def _has_none_added(storage: str) -> str:
    return f"!{storage}.volumes.exists(v, has(v.added))"


_IS_TAKEN = (
    "(has(self.status) && has(self.status.addedVolumes) && self.status.addedVolumes.exists(name, name == v.name))"
)
_TAKEN = (
    "an added volume cannot be taken back any more, since a bookie may have data on it (status.addedVolumes): put it"
    " back as it was"
)


def _gives_back(role: str) -> CelRule:
    return _of_all(
        role,
        f"oldSelf.spec.storage.{role}.volumes.all(v, self.spec.storage.{role}.volumes.exists(n, n.name == v.name)"
        f" || !{_IS_TAKEN})",
        _TAKEN,
    )


def _pool_gives_back(role: str) -> CelRule:
    return _of_pools(
        role,
        f"o.storage.{role}.volumes.all(v, p.storage.{role}.volumes.exists(n, n.name == v.name) || !{_IS_TAKEN})",
        _TAKEN,
    )


def _in_order(role: str, new: str, old: str) -> str:
    """Return the CEL of: the order of volumes is kept, or put back. `new`, `old`: the storage of both."""
    kept = _keeps_order(role, f"{new}.{role}.volumes", f"{old}.{role}.volumes")
    is_put_back = f"{_IS_UNDER_WAY.format(role=role)} && {_has_none_added(f'{new}.{role}')}"
    return f"{kept} || ({is_put_back} && {_has_none_added(f'{old}.{role}')})"


def _order(role: str) -> CelRule:
    return _of_all(role, _in_order(role, "self.spec.storage", "oldSelf.spec.storage"), _ORDER)


def _pool_order(role: str) -> CelRule:
    return _of_pools(role, _in_order(role, "p.storage", "o.storage"), _ORDER)


ROOT = (
    CelRule(
        f"size(self.metadata.name) <= {CLUSTER_NAME_MAX}",
        "metadata.name is longer than 30 characters, and names of pods are made from it: choose a shorter one",
        name="shortName",
    ),
    CelRule(
        f"self.metadata.name.matches('{CLUSTER_NAME}')",
        "metadata.name cannot become the name of a Service: it has to begin with a letter and have lower-case letters,"
        " digits and '-' only (no dot, and not '-' at its end): choose another one",
        name="serviceName",
    ),
    *(_SIZES[role] for role in ("journal", "ledgers", "index")),
    *(_pool_sizes(role) for role in ("journal", "ledgers", "index")),
    *(_order(role) for role in ("journal", "ledgers", "index")),
    *(_pool_order(role) for role in ("journal", "ledgers", "index")),
    *(_gives_back(role) for role in ("ledgers", "index")),
    *(_pool_gives_back(role) for role in ("ledgers", "index")),
    CelRule(
        # The spec alone cannot say whether they have left: a bookie that leaves runs with what its pool says.
        "!has(oldSelf.spec.pools) || !has(self.spec.pools) || !has(self.status) || !has(self.status.pools)"
        " || self.status.pools.all(s, s.desired == 0 || !oldSelf.spec.pools.exists(o, o.name == s.name)"
        " || self.spec.pools.exists(n, n.name == s.name))",
        "spec.pools: a pool is taken out that still has bookies (status.pools[].desired), and they leave by what it"
        " says: set its replicas to 0, and take it out when it has none",
        field=".spec.pools",
        reason="FieldValueForbidden",
    ),
)

# All volumes of a bookie are of kind Ephemeral, or none is (below), so that the journal's tell.
_HAS_EPHEMERAL = (
    "self.storage.journal.volumes.exists(v, has(v.kind) && v.kind == 'Ephemeral')"
    " || (has(self.pools) && self.pools.exists(p, has(p.storage)"
    " && p.storage.journal.volumes.exists(v, has(v.kind) && v.kind == 'Ephemeral')))"
)

SPEC = (
    CelRule(
        "has(self.replicas) != has(self.pools)",
        "spec.replicas or spec.pools must be there, and not both: with pools each says its own replicas",
        name="replicasOrPools",
    ),
    CelRule(
        "!has(self.pools) || !has(self.zones)",
        "spec.pools and spec.zones: give one of them. With pools each says its own zone: take zones out",
        field=".pools",
        name="poolsOrZones",
    ),
    CelRule(
        "!has(self.pools) || self.pools.map(p, p.replicas).sum() >= self.quorum.ensembleSize",
        "spec.pools have fewer replicas together than spec.quorum.ensembleSize, so no ledger could ever be created:"
        " raise replicas",
        field=".pools",
        name="poolsOfEnsemble",
    ),
    CelRule(
        f"!has(self.pools) || self.pools.map(p, p.replicas).sum() <= {BOOKIES_MAX}",
        f"spec.pools have more than {BOOKIES_MAX} replicas together: make another BookieCluster",
        field=".pools",
        name="poolsMost",
    ),
    CelRule(
        "!has(self.pools) || self.placement.antiAffinity == 'Required'"
        " || self.pools.all(p, !has(p.perNode) || p.perNode == 1)",
        "spec.pools[].perNode is more than 1 and spec.placement.antiAffinity is not Required: then any number of"
        " bookies may share a node, and none says so. Set antiAffinity to Required, or leave perNode out",
        field=".pools",
        name="perNodeAffinity",
    ),
    CelRule(
        "!has(self.pools) || self.pools.all(p, !has(p.perNode) || p.perNode == 1) || self.pools.map(p,"
        " (p.replicas + (has(p.perNode) ? p.perNode : 1) - 1) / (has(p.perNode) ? p.perNode : 1)).sum()"
        " * (self.quorum.ensembleSize / self.quorum.writeQuorum) >= self.quorum.ensembleSize",
        "spec.pools[].perNode: with so many bookies on a node they may all be on so few nodes that copies of one entry"
        " share one, and the node takes all of them along. Lower perNode, raise replicas, or lower"
        " spec.quorum.ensembleSize",
        field=".pools",
        name="perNodeHosts",
    ),
    CelRule(
        "!has(self.replicas) || self.replicas >= self.quorum.ensembleSize",
        "spec.replicas is less than spec.quorum.ensembleSize, so no ledger could ever be created: raise"
        " replicas to at least ensembleSize",
        field=".replicas",
        name="replicasOfEnsemble",
    ),
    CelRule(
        "!has(self.zones) || !has(self.replicas) || self.replicas >= self.zones.size()",
        "spec.replicas is less than the number of spec.zones, so a zone would stay empty: raise replicas",
        field=".replicas",
        name="replicasOfZones",
    ),
    CelRule(
        "has(self.zones) == has(oldSelf.zones) || (has(self.pools) && !has(oldSelf.pools))",
        "spec.zones cannot be added or removed later: bookie ids contain the zone. Create another BookieCluster, or go"
        " over to spec.pools",
        field=".zones",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "has(self.pools) || !has(oldSelf.pools)",
        "spec.pools cannot be taken out later: what its bookies are made of is said there alone. Keep them, or create"
        " another BookieCluster",
        field=".pools",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "!has(self.pools) || has(oldSelf.pools) || !has(oldSelf.zones) || oldSelf.zones.all(z, self.pools.exists(p,"
        " p.name == z.name && has(p.zone) && p.zone == z.name && !has(p.storage)))",
        "spec.pools must begin with one pool for each of spec.zones, with the zone's name as `name` and as `zone` and"
        " without storage of its own: ids and volumes of bookies do not change. Name the pools as the zones are named",
        field=".pools",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "!has(self.pools) || has(oldSelf.pools) || has(oldSelf.zones)"
        " || self.pools.exists(p, p.name == 'default' && !has(p.zone) && !has(p.storage))",
        "spec.pools must begin with a pool named default, without zone and without storage of its own: it is where the"
        " bookies of a cluster without zones are, and their ids contain the name",
        field=".pools",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "self.storage.journalWriteData || has(self.storage.acknowledgeNoJournal)"
        " || (has(self.zones) && self.zones.size() >= 3)"
        " || (has(self.pools) && self.pools.exists(a, has(a.zone) && a.replicas > 0 && self.pools.exists(b,"
        " has(b.zone) && b.replicas > 0 && b.zone != a.zone && self.pools.exists(c, has(c.zone) && c.replicas > 0"
        " && c.zone != a.zone && c.zone != b.zone))))",
        "spec.storage.journalWriteData: false over fewer than three spec.zones (or zones of pools) loses acknowledged"
        " entries when one zone"
        " loses power: use three zones, or set spec.storage.acknowledgeNoJournal: IAcceptLossOnCorrelatedPowerFailure",
        field=".storage.journalWriteData",
        name="noJournal",
    ),
    CelRule(
        "self.storage.journalWriteData == oldSelf.storage.journalWriteData"
        " || (has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image))",
        "spec.storage.journalWriteData and spec.image changed in one edit: change one, wait for Reconciling=False, then"
        " the other",
        field=".storage.journalWriteData",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "self.repair.maxConcurrent <= (self.quorum.ackQuorum > 1 ? self.quorum.ackQuorum - 1 : 1)",
        "spec.repair.maxConcurrent is more than spec.quorum.ackQuorum - 1: more empty bookies at once than the ack"
        " quorum survives. Lower maxConcurrent",
        field=".repair.maxConcurrent",
        name="maxConcurrent",
    ),
    CelRule(
        "self.disruption.maxUnavailable <= (self.quorum.ackQuorum > 2 ? self.quorum.ackQuorum - 1 : 1)",
        "spec.disruption.maxUnavailable is more than the ack quorum survives (ackQuorum - 1): lower it",
        field=".disruption.maxUnavailable",
        name="maxUnavailable",
    ),
    CelRule(
        "self.repair.regeneration != 'BookieLocal' || !self.lifecycle.deletionProtection",
        "spec.repair.regeneration: BookieLocal lets bookies regenerate without proof, for throw-away clusters only: set"
        " spec.lifecycle.deletionProtection: false too, or use Gated",
        field=".repair.regeneration",
        name="bookieLocal",
    ),
    CelRule(
        f"!({_HAS_EPHEMERAL}) || self.lifecycle.deletionPolicy == 'Delete'",
        "spec.storage: volumes of kind Ephemeral go with their pods, and so with this resource, whatever"
        " spec.lifecycle.deletionPolicy says: set it to Delete, or use claims",
        field=".lifecycle.deletionPolicy",
        name="ephemeralRetain",
    ),
    CelRule(
        f"!({_HAS_EPHEMERAL}) || !self.lifecycle.hibernate",
        "spec.lifecycle.hibernate ends all pods, and volumes of kind Ephemeral go with them: set it to false",
        field=".lifecycle.hibernate",
        name="ephemeralHibernate",
    ),
    CelRule(
        "self.storage.journalWriteData || duration(self.lifecycle.terminationGrace) >= duration('2m')",
        "spec.lifecycle.terminationGrace is under 2m with spec.storage.journalWriteData: false, and everything must be"
        " flushed at shutdown: set at least 2m",
        field=".lifecycle.terminationGrace",
        name="terminationGrace",
    ),
    CelRule(
        f"!has(self.config) || self.config.all(key, !(key in {list(DENIED_CONFIG)!r}))",
        "spec.config sets a key that has a field of its own or that the operator owns (bookieId, ports, directories,"
        " metadataServiceUri, journalWriteData, zone, regeneration, ...): remove it and use the field",
        field=".config",
    ),
)

ROLLOUT = (
    CelRule(
        "!has(self.windows) || self.windows.all(w, duration(w.duration).getSeconds() >= self.maxSecondsPerBookie)",
        "spec.rollout.windows: a window is shorter than spec.rollout.maxSecondsPerBookie, so no bookie could ever be"
        " stopped within it: make it longer, or lower maxSecondsPerBookie",
        field=".windows",
        name="windowTooShort",
    ),
    CelRule(
        "!has(self.windows) || self.windows.all(w, duration(w.duration) <= duration('168h'))",
        "spec.rollout.windows: a window is longer than a week (168h): shorten it, or leave windows out, which means"
        " always",
        field=".windows",
        name="windowTooLong",
    ),
)

ZONES = (
    CelRule(
        "self.all(n, oldSelf.exists(o, o.name == n.name)) || oldSelf.all(o, self.exists(n, n.name == o.name))",
        "spec.zones may get further zones or lose some, and not both in one edit: a zone that is renamed is another"
        " one, and all its bookies would leave. Add the new one first",
        reason="FieldValueForbidden",
    ),
)

POOLS = (
    CelRule(
        "oldSelf.all(o, o.replicas == 0 || self.exists(n, n.name == o.name))",
        "spec.pools: a pool is taken out, or renamed, that has replicas: its bookies' ids contain its name. Set its"
        " replicas to 0 first, and take it out when its bookies have left",
        reason="FieldValueForbidden",
    ),
)

POOL = (
    CelRule(
        "has(self.zone) == has(oldSelf.zone) && (!has(self.zone) || self.zone == oldSelf.zone)",
        "spec.pools[].zone cannot change: volumes stay in their zone. Make another pool in the other zone, then set the"
        " replicas of this one to 0",
        field=".zone",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "has(self.storage) == has(oldSelf.storage)",
        "spec.pools[].storage cannot be added or removed later: volumes would change. Make another pool, then set the"
        " replicas of this one to 0",
        field=".storage",
        reason="FieldValueForbidden",
    ),
    CelRule(
        f"!has(self.config) || self.config.all(key, !(key in {list(DENIED_CONFIG)!r}))",
        "spec.pools[].config sets a key that has a field of its own or that the operator owns (bookieId, ports,"
        " directories, metadataServiceUri, journalWriteData, zone, regeneration, ...): remove it and use the field",
        field=".config",
    ),
    CelRule(
        "(has(oldSelf.perNode) ? oldSelf.perNode : 1) <= (has(self.perNode) ? self.perNode : 1)",
        "spec.pools[].perNode cannot be lowered: bookies that share a node could not start there again. Make another"
        " pool, then set the replicas of this one to 0",
        field=".perNode",
        reason="FieldValueForbidden",
    ),
)

QUORUM = (
    CelRule(
        "self.ensembleSize >= self.writeQuorum",
        "spec.quorum.writeQuorum is more than ensembleSize: an entry cannot be written to more bookies than the"
        " ensemble has. Lower writeQuorum or raise ensembleSize",
        field=".writeQuorum",
        name="writeQuorum",
    ),
    CelRule(
        "self.writeQuorum >= self.ackQuorum",
        "spec.quorum.ackQuorum is more than writeQuorum: no entry could ever be acknowledged. Lower ackQuorum",
        field=".ackQuorum",
        name="ackQuorum",
    ),
)

METADATA = (
    CelRule(
        "self.uri.split('/', 4)[0] == oldSelf.uri.split('/', 4)[0]"
        " && self.uri.split('/', 4)[3] == oldSelf.uri.split('/', 4)[3]",
        "spec.metadataService.uri may change its hosts only: another scheme or path is another cluster's metadata",
        field=".uri",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "!has(oldSelf.expectedInstanceId) || (has(self.expectedInstanceId)"
        " && self.expectedInstanceId == oldSelf.expectedInstanceId)",
        "spec.metadataService.expectedInstanceId cannot change once it is set: it is what protects from a wrong store",
        field=".expectedInstanceId",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "self.initialize != 'IfAbsent' || oldSelf.initialize == 'IfAbsent'",
        "spec.metadataService.initialize cannot be switched to IfAbsent later: a store that lost its metadata would be"
        " formatted anew. Keep Never, and initialise by hand with `bookie cluster init`",
        field=".initialize",
        reason="FieldValueForbidden",
    ),
)

_FIXED = (
    "cannot change so (names and kind are fixed at creation, and so is their number, but for ledger volumes, with their"
    " indexes, that are added at the end with `added: true`; sizes may grow; class and access mode change by name, with"
    " spec.storage.layoutChange: RollingRebuild, which moves the data of one bookie after the other): set that, or make"
    " a pool (spec.pools) with the volumes that you want, then set the replicas of the old pools to 0"
)


def _is_kept(field: str) -> str:
    """Return the CEL that lets a field of a volume be as it was."""
    return f"(has(n.{field}) == has(o.{field}) && (!has(n.{field}) || n.{field} == o.{field}))"


def _is_kept_or_named(field: str) -> str:
    """Return the same; or another one that is named, where bookies are rebuilt. What is not named is the cluster's
    default, which no claim can be compared with."""
    return f"({_is_kept(field)} || (has(n.{field}) && {_REBUILT.format(storage='self')}))"


def _is_same_layout(role: str, is_kept: Callable[[str], str] = _is_kept) -> str:
    """Return the CEL of: no volume comes or goes but those that are added (where: `_keeps_order`; which may go:
    `_gives_back`), and none changes."""
    return (
        f"self.{role}.volumes.all(n, has(n.added) || oldSelf.{role}.volumes.exists(o, o.name == n.name))"
        f" && oldSelf.{role}.volumes.all(o,"
        f" (has(o.added) && !self.{role}.volumes.exists(n, n.name == o.name))"
        f" || self.{role}.volumes.exists(n, n.name == o.name"
        " && (has(n.kind) ? n.kind : 'Claim') == (has(o.kind) ? o.kind : 'Claim')"
        f" && {_is_kept('added')} && {is_kept('storageClassName')} && {is_kept('accessMode')}))"
    )


_IS_EPHEMERAL = "has(v.kind) && v.kind == 'Ephemeral'"


def _all_or_none_ephemeral(index: str) -> str:
    """Return the CEL of: all volumes of a bookie go with its pod, or none does. `index`: the guard of its index."""
    lists = (("journal", ""), ("ledgers", ""), ("index", index))
    all_of = " && ".join(f"({guard}self.{role}.volumes.all(v, {_IS_EPHEMERAL}))" for role, guard in lists)
    none_of = " && ".join(f"({guard}!self.{role}.volumes.exists(v, {_IS_EPHEMERAL}))" for role, guard in lists)
    return f"({all_of}) || ({none_of})"


def _plain_ephemeral(index: str) -> str:
    """Return the CEL of: what goes with the pod has nothing that only claims have."""
    lists = (("journal", ""), ("ledgers", ""), ("index", index))
    return " && ".join(
        f"({guard}self.{role}.volumes.all(v, !({_IS_EPHEMERAL})"
        " || (!has(v.storageClassName) && !has(v.accessMode) && !has(v.allowSharedFilesystem) && !has(v.added))))"
        for role, guard in lists
    )


_ALL_OR_NONE = (
    "of one bookie are in part of kind Ephemeral: what goes with the pod would be lost at each stop, and the rest kept"
    " for nothing. Set kind: Ephemeral for all volumes, or for none"
)
_PLAIN = (
    "have a volume of kind Ephemeral with storageClassName, accessMode, allowSharedFilesystem or added, which only"
    " claims have: leave them out"
)

_ADDED_JOURNAL = "a volume is added, and bookies that live get further ledger and index volumes only: leave it out"

STORAGE = (
    CelRule(
        _all_or_none_ephemeral(""),
        f"spec.storage: the volumes {_ALL_OR_NONE}",
        name="ephemeralInPart",
    ),
    CelRule(_plain_ephemeral(""), f"spec.storage: the volumes {_PLAIN}", name="ephemeralClaim"),
    CelRule(
        "self.journal.volumes.all(v, !has(v.added))",
        f"spec.storage.journal.volumes: {_ADDED_JOURNAL}",
        field=".journal",
        name="addedJournal",
    ),
    CelRule(
        "self.index.volumes.size() == 0 || self.index.volumes.size() == self.ledgers.volumes.size()",
        "spec.storage.index.volumes must be none, or as many as spec.storage.ledgers.volumes: each has an index of"
        " its own",
        field=".index",
        name="indexVolumes",
    ),
    CelRule(
        "self.journal.volumes.all(j, !self.ledgers.volumes.exists(l, l.name == j.name)"
        " && !self.index.volumes.exists(i, i.name == j.name))"
        " && self.ledgers.volumes.all(l, !self.index.volumes.exists(i, i.name == l.name))",
        "spec.storage: a volume name is used in two roles, and claims are named after volumes: give each its own name",
        name="volumeNames",
    ),
    CelRule(
        # One by one: to the API server the three lists are of three types, and no list holds them together.
        " && ".join(
            f"self.{role}.volumes.all(v, !v.name.startsWith('{RESERVED_VOLUMES}'))"
            for role in ("journal", "ledgers", "index")
        ),
        f"spec.storage: a volume's name begins with {RESERVED_VOLUMES}, as the operator's own volumes in the pod do:"
        " choose another name",
        name="reservedVolumes",
    ),
    *(
        CelRule(
            _is_same_layout(role, _is_kept_or_named),
            f"spec.storage.{role}.volumes {_FIXED}",
            field=f".{role}",
            reason="FieldValueForbidden",
        )
        for role in ("journal", "ledgers", "index")
    ),
)

POOL_STORAGE = (
    CelRule(
        _all_or_none_ephemeral("!has(self.index) || "),
        f"spec.pools[].storage: the volumes {_ALL_OR_NONE}",
        name="poolEphemeralInPart",
    ),
    CelRule(
        _plain_ephemeral("!has(self.index) || "),
        f"spec.pools[].storage: the volumes {_PLAIN}",
        name="poolEphemeralClaim",
    ),
    CelRule(
        "self.journal.volumes.all(v, !has(v.added))",
        f"spec.pools[].storage.journal.volumes: {_ADDED_JOURNAL}",
        field=".journal",
        name="poolAddedJournal",
    ),
    CelRule(
        "!has(self.index) || self.index.volumes.size() == self.ledgers.volumes.size()",
        "spec.pools[].storage.index.volumes must be as many as its ledgers.volumes, or index must be absent: each has"
        " an index of its own",
        field=".index",
        name="poolIndexVolumes",
    ),
    CelRule(
        "self.journal.volumes.all(j, !self.ledgers.volumes.exists(l, l.name == j.name)"
        " && (!has(self.index) || !self.index.volumes.exists(i, i.name == j.name)))"
        " && (!has(self.index) || self.ledgers.volumes.all(l, !self.index.volumes.exists(i, i.name == l.name)))",
        "spec.pools[].storage: a volume name is used in two roles, and claims are named after volumes: give each its"
        " own name",
        name="poolVolumeNames",
    ),
    CelRule(
        " && ".join(
            f"({guard}self.{role}.volumes.all(v, !v.name.startsWith('{RESERVED_VOLUMES}')))"
            for role, guard in (("journal", ""), ("ledgers", ""), ("index", "!has(self.index) || "))
        ),
        f"spec.pools[].storage: a volume's name begins with {RESERVED_VOLUMES}, as the operator's own volumes in the"
        " pod do: choose another name",
        name="poolReservedVolumes",
    ),
    *(
        CelRule(
            guard + _is_same_layout(role) + ("))" if guard else ""),
            f"spec.pools[].storage.{role}.volumes cannot change (class and names are fixed at creation, and so is"
            " their number, but for ledger volumes, with their indexes, that are added at the end with `added: true`;"
            " sizes may grow): make another pool, then set the replicas of this one to 0",
            field=f".{role}",
            reason="FieldValueForbidden",
        )
        for role, guard in (
            ("journal", ""),
            ("ledgers", ""),
            ("index", "has(self.index) == has(oldSelf.index) && (!has(self.index) || ("),
        )
    ),
)

PORTS = (
    CelRule(
        "self.data != self.admin && self.data != self.metrics && self.admin != self.metrics"
        " && !(self.adminTls in [self.data, self.admin, self.metrics])",
        "spec.network.ports: data, admin, adminTls and metrics must be four different ports",
        name="ports",
    ),
    CelRule(
        "self.data == oldSelf.data && self.admin == oldSelf.admin",
        "spec.network.ports.data and .admin cannot change: writers hold the old address. Keep them",
        reason="FieldValueForbidden",
    ),
)

NETWORK = (
    CelRule(
        # What Kubernetes would complete stays open: else the Service would never be as it was applied.
        "!has(self.ipFamilies) || self.ipFamilies.size() == 0 || (has(self.ipFamilyPolicy)"
        " && self.ipFamilies.size() == (self.ipFamilyPolicy == 'SingleStack' ? 1 : 2)"
        " && self.ipFamilyPolicy != 'PreferDualStack')",
        "spec.network.ipFamilies needs spec.network.ipFamilyPolicy: one family with SingleStack, both with"
        " RequireDualStack, none with PreferDualStack",
        field=".ipFamilies",
        name="ipFamilies",
    ),
    CelRule(
        "!has(self.ipFamilies) || self.ipFamilies.size() < 2 || self.ipFamilies[0] != self.ipFamilies[1]",
        "spec.network.ipFamilies names one family twice: name each once",
        field=".ipFamilies",
        name="ipFamiliesTwice",
    ),
    CelRule(
        "!has(oldSelf.ipFamilies) || oldSelf.ipFamilies.size() == 0 || !has(self.ipFamilies)"
        " || self.ipFamilies.size() == 0 || self.ipFamilies[0] == oldSelf.ipFamilies[0]",
        "spec.network.ipFamilies cannot change its first family: a Service keeps it for ever",
        field=".ipFamilies",
        reason="FieldValueForbidden",
    ),
)

SECURITY = (
    CelRule(
        "!self.tls.clientCertificates || has(self.tls.secretName)",
        "spec.security.tls.clientCertificates needs spec.security.tls.secretName: the operator makes certificates for"
        " bookies, and none for clients",
        field=".tls.clientCertificates",
        name="tlsClients",
    ),
    CelRule(
        "self.tls.mode == 'Disabled' || oldSelf.tls.mode == 'Disabled'"
        " || has(self.tls.secretName) == has(oldSelf.tls.secretName)",
        "spec.security.tls.secretName comes or goes while TLS is on, and bookies would not trust each other's"
        " certificates: set mode Disabled (by Permissive), wait for UpToDate=True, then change it",
        field=".tls.secretName",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "self.authentication.mode == 'Disabled' || has(self.authentication.secretName)",
        "spec.security.authentication.mode is not Disabled, and spec.security.authentication.secretName names no Secret"
        " with jaas.conf: name it",
        field=".authentication.secretName",
        name="authenticationSecret",
    ),
    *(
        CelRule(
            " && ".join(
                f"(self.{part}.mode != '{new}' || oldSelf.{part}.mode != '{old}')"
                for old, new in (("Disabled", "Required"), ("Required", "Disabled"))
            ),
            f"spec.security.{part}.mode changes between Disabled and Required in one step, and bookies of both kinds"
            " would not serve each other: set Permissive, wait for UpToDate=True, then go on",
            field=f".{part}.mode",
            reason="FieldValueForbidden",
        )
        for part in ("tls", "authentication")
    ),
)

# Settings of spec.security, which must not stand in spec.config while it is switched on.
TLS_CONFIG = (
    "tlsProviderFactoryClass",
    "tlsRequired",
    "tlsPeersMayBePlain",
    "tlsKeyStoreType",
    "tlsKeyStore",
    "tlsCertificatePath",
    "tlsKeyStorePasswordPath",
    "tlsTrustStoreType",
    "tlsTrustStore",
    "tlsTrustStorePasswordPath",
    "tlsClientAuthentication",
    "tlsHostnameVerificationEnabled",
)
AUTHENTICATION_CONFIG = (
    "bookieAuthProviderFactoryClass",
    "clientAuthProviderFactoryClass",
    "saslJaasFile",
    "saslJaasBookieSectionName",
    "saslJaasClientSectionName",
)

# Fields of a PodSpec that a pod template must not have, with their types: the API server sees only what is declared.
POD_SPEC_OWN = {
    "activeDeadlineSeconds": "integer",
    "hostIPC": "boolean",
    "hostNetwork": "boolean",
    "hostPID": "boolean",
    "hostUsers": "boolean",
    "hostname": "string",
    "nodeName": "string",
    "restartPolicy": "string",
    "setHostnameAsFQDN": "boolean",
    "shareProcessNamespace": "boolean",
    "subdomain": "string",
    "terminationGracePeriodSeconds": "integer",
}

# What else of it the operator refuses: resources/pod_template.py, which reads the whole of it.
POD_SPEC = (
    CelRule(
        " && ".join(f"!has(self.{name})" for name in POD_SPEC_OWN),
        f"spec.podTemplate.spec must have none of {', '.join(POD_SPEC_OWN)}: a bookie's identity, end and volumes"
        " depend on them. Remove it; for the time to stop in there is spec.lifecycle.terminationGrace",
    ),
    CelRule(
        f"!has(self.volumes) || self.volumes.all(v, !v.name.startsWith('{RESERVED_VOLUMES}'))",
        f"spec.podTemplate.spec.volumes: a name begins with {RESERVED_VOLUMES}, as the operator's own volumes do:"
        " choose another name",
        field=".volumes",
    ),
)

POD_METADATA = tuple(
    CelRule(
        f"!has(self.{part}) || self.{part}.all(key, !key.startsWith('{RESERVED_KEYS}'))",
        f"spec.podTemplate.metadata.{part}: a name begins with {RESERVED_KEYS}: the operator knows its pods by it:"
        " choose another name",
        field=f".{part}",
    )
    for part in ("labels", "annotations")
)

# Of a BookieOperation. By their names, so that the rules in CEL and in Python are of one list.
TYPES_OF_A_BOOKIE = (
    "Restart",
    "ApproveRegeneration",
    "Fence",
    "Unfence",
    "RestoreCookie",
    "Replace",
    "Retire",
    "ReplaceVolume",
    "ConfirmLoss",
)
TYPES_OF_EVIDENCE = ("ApproveRegeneration", "RestoreCookie", "ConfirmLoss")
EXPLAINED_TYPES = ("ApproveRegeneration", "AcceptLoss", "RestoreCookie", "ConfirmLoss", "AcceptLedgerLoss")
REASON_MIN = 20

OPERATION = (
    CelRule(
        "self == oldSelf",
        "spec of a BookieOperation never changes: what was asked for, and why, stays readable. Delete this one (it is"
        " cancelled unless it has begun) and create another",
        reason="FieldValueForbidden",
    ),
    CelRule(
        f"!(self.type in {list(TYPES_OF_A_BOOKIE)!r}) || has(self.target.bookie)",
        "spec.target.bookie is missing: this type of operation is about one bookie. Name it as its pod is named"
        " (`kubectl get pods`)",
        field=".target",
        name="operationTarget",
    ),
    CelRule(
        "(self.type == 'ReplaceVolume') == has(self.target.volume)",
        "spec.target.volume names the volume of a ReplaceVolume, and belongs to no other type: take its name from"
        " spec.storage of the cluster",
        field=".target",
        name="operationVolume",
    ),
    CelRule(
        f"!(self.type in {list(TYPES_OF_EVIDENCE)!r}) || has(self.evidence)",
        "spec.evidence is missing: this type of operation is for one very case. Take it from"
        " status.bookies[].evidence of the cluster",
        name="operationEvidence",
    ),
    CelRule(
        "self.type != 'AcceptLoss' || (has(self.target.bookies) && self.target.bookies.size() > 0)",
        "spec.target.bookies is empty: name every bookie that is without its data, each with its evidence"
        " (status.bookies[].evidence of the cluster)",
        field=".target",
        name="operationBookies",
    ),
    CelRule(
        "self.type == 'AcceptLedgerLoss'"
        " ? has(self.target.ledgers) && self.target.ledgers.size() > 0"
        " && has(self.target.givenUp) && self.target.givenUp.size() > 0"
        " : (!has(self.target.ledgers) || self.target.ledgers.size() == 0)"
        " && (!has(self.target.givenUp) || self.target.givenUp.size() == 0)",
        "spec.target.ledgers and spec.target.givenUp belong to AcceptLedgerLoss, which needs both: name the ledgers by"
        " their ids (`bookie integrity status` of a bookie tells which are blocked), and the bookies that lost what"
        " they held of them by their pods",
        field=".target",
        name="operationLedgers",
    ),
    CelRule(
        "!has(self.target.ledgers) || self.target.ledgers.all(l, l.size() < 19 || l <= '9223372036854775807')",
        "spec.target.ledgers: no ledger has an id above 9223372036854775807 (2^63-1): take the ids from"
        " `bookie integrity status` of a bookie",
        field=".target",
        name="operationLedgerIds",
    ),
    CelRule(
        f"!(self.type in {list(EXPLAINED_TYPES)!r}) || (has(self.reason) && self.reason.size() >= {REASON_MIN})",
        f"spec.reason is shorter than {REASON_MIN} characters: say why, for whoever reads it a year later",
        field=".reason",
        name="operationReason",
    ),
)
