"""Checks the CEL rules again, in Python: an operator under an older CRD must not act on a spec that the newer one
refuses.

The sentences are those of `rules.py`. Transition rules are missing here on purpose: only the API server sees both
versions.
"""

import re
from collections.abc import Iterator

from bookie_operator.model import reserved, rules, volume_rules
from bookie_operator.model.spec import BookieClusterSpec, NetworkSpec, Pool, Regeneration, RolloutSpec
from bookie_operator.model.storage import Storage
from bookie_operator.model.values import parse_duration

_RULES = (
    *rules.ROOT,
    *rules.SPEC,
    *rules.POOL,
    *volume_rules.POOL_STORAGE,
    *rules.QUORUM,
    *volume_rules.STORAGE,
    *rules.PORTS,
    *rules.NETWORK,
    *rules.SECURITY,
    *rules.ROLLOUT,
)
_WINDOW_MAX_MS = 7 * 24 * 3_600_000
# By the rule's name, so that a new rule may stand anywhere in its list.
_SAID = {rule.name: rule.message for rule in _RULES if rule.name}


def problems(spec: BookieClusterSpec, name: str) -> tuple[str, ...]:
    """Return one sentence for each rule that `spec` of the cluster `name` breaks; empty when it is good."""
    return (*_broken_name(name), *_broken(spec))


def _broken_name(name: str) -> Iterator[str]:
    if len(name) > reserved.CLUSTER_NAME_MAX:
        yield _SAID["shortName"]
    if not re.fullmatch(reserved.CLUSTER_NAME, name):
        yield _SAID["serviceName"]


def _broken(spec: BookieClusterSpec) -> Iterator[str]:
    quorum = spec.quorum
    if (spec.replicas is None) == (spec.pools is None):
        yield _SAID["replicasOrPools"]
    if spec.replicas is not None and spec.replicas < quorum.ensemble_size:
        yield _SAID["replicasOfEnsemble"]
    if spec.zones is not None and spec.replicas is not None and spec.replicas < len(spec.zones):
        yield _SAID["replicasOfZones"]
    if spec.pools is not None:
        yield from _broken_pools(spec, spec.pools)
    if quorum.ensemble_size < quorum.write_quorum:
        yield _SAID["writeQuorum"]
    if quorum.write_quorum < quorum.ack_quorum:
        yield _SAID["ackQuorum"]
    tolerated = max(1, spec.tolerance)
    if spec.repair.max_concurrent > tolerated:
        yield _SAID["maxConcurrent"]
    if spec.disruption.max_unavailable > tolerated:
        yield _SAID["maxUnavailable"]
    if spec.repair.regeneration is Regeneration.BOOKIE_LOCAL and spec.lifecycle.deletion_protection:
        yield _SAID["bookieLocal"]
    yield from _broken_storage(spec)
    yield from _broken_ephemeral(spec)
    if spec.security.tls.client_certificates and spec.security.tls.secret_name is None:
        yield _SAID["tlsClients"]
    if spec.security.authentication.mode != "Disabled" and spec.security.authentication.secret_name is None:
        yield _SAID["authenticationSecret"]
    yield from _broken_network(spec.network)
    yield from _broken_windows(spec.rollout)


def _broken_ephemeral(spec: BookieClusterSpec) -> Iterator[str]:
    """Yield which field that is meant for claims would take away what goes with the pod."""
    yield from _broken_kinds(spec.storage, "ephemeral")
    for pool in spec.pools or ():
        if pool.storage is not None:
            yield from _broken_kinds(spec.of(pool.name).storage, "poolEphemeral")
    if not spec.has_ephemeral:
        return
    if spec.lifecycle.deletion_policy != "Delete":
        yield _SAID["ephemeralRetain"]
    if spec.lifecycle.hibernate:
        yield _SAID["ephemeralHibernate"]


def _broken_kinds(storage: Storage, prefix: str) -> Iterator[str]:
    volumes = [volume for _, volume in storage.by_role()]
    found = [volume for volume in volumes if volume.is_ephemeral]
    if found and len(found) < len(volumes):
        yield _SAID[f"{prefix}InPart"]
    if any(
        one.storage_class_name or one.access_mode or one.allow_shared_filesystem is not None or one.added
        for one in found
    ):
        yield _SAID[f"{prefix}Claim"]


def _broken_windows(rollout: RolloutSpec) -> Iterator[str]:
    lasting_ms = [parse_duration(window.duration) for window in rollout.windows]
    if any(one // 1_000 < rollout.max_seconds_per_bookie for one in lasting_ms):
        yield _SAID["windowTooShort"]
    if any(one > _WINDOW_MAX_MS for one in lasting_ms):
        yield _SAID["windowTooLong"]


def _broken_pools(spec: BookieClusterSpec, pools: tuple[Pool, ...]) -> Iterator[str]:
    if spec.zones is not None:
        yield _SAID["poolsOrZones"]
    if spec.size < spec.quorum.ensemble_size:
        yield _SAID["poolsOfEnsemble"]
    if spec.size > reserved.BOOKIES_MAX:
        yield _SAID["poolsMost"]
    if spec.shares_nodes:
        yield from _broken_sharing(spec, pools)
    for pool in pools:
        own = spec.of(pool.name).storage
        if pool.storage is None:
            continue
        if len(own.index.volumes) not in (0, len(own.ledgers.volumes)):
            yield _SAID["poolIndexVolumes"]
        if any(volume.added for volume in own.journal.volumes):
            yield _SAID["poolAddedJournal"]
        volume_names = [volume.name for _, volume in own.by_role()]
        if len(set(volume_names)) < len(volume_names):
            yield _SAID["poolVolumeNames"]
        if any(name.startswith(reserved.RESERVED_VOLUMES) for name in volume_names):
            yield _SAID["poolReservedVolumes"]


def _broken_sharing(spec: BookieClusterSpec, pools: tuple[Pool, ...]) -> Iterator[str]:
    if spec.placement.anti_affinity != "Required":
        yield _SAID["perNodeAffinity"]
    # In a ring of E slots one node may have every WQth alone, so that no write set has two copies there.
    quorum = spec.quorum
    if quorum.write_quorum <= quorum.ensemble_size:
        slots_of_node = quorum.ensemble_size // quorum.write_quorum
        if sum(pool.nodes_min for pool in pools) * slots_of_node < quorum.ensemble_size:
            yield _SAID["perNodeHosts"]


def _broken_network(network: NetworkSpec) -> Iterator[str]:
    policy, families = network.ip_family_policy, network.ip_families
    wanted = {"SingleStack": 1, "RequireDualStack": 2}.get(policy or "", 0)
    if families and len(families) != wanted:
        yield _SAID["ipFamilies"]
    if len(set(families)) < len(families):
        yield _SAID["ipFamiliesTwice"]
    ports = network.ports
    if len({ports.data, ports.admin, ports.admin_tls, ports.metrics}) < 4:
        yield _SAID["ports"]


def _broken_storage(spec: BookieClusterSpec) -> Iterator[str]:
    storage = spec.storage
    if not storage.journal_write_data:
        if storage.acknowledge_no_journal is None and len(spec.zone_names) < 3:
            yield _SAID["noJournal"]
        if parse_duration(spec.lifecycle.termination_grace) < 120_000:
            yield _SAID["terminationGrace"]
    if len(storage.index.volumes) not in (0, len(storage.ledgers.volumes)):
        yield _SAID["indexVolumes"]
    if any(volume.added for volume in storage.journal.volumes):
        yield _SAID["addedJournal"]
    volume_names = [volume.name for _, volume in storage.by_role()]
    if len(set(volume_names)) < len(volume_names):
        yield _SAID["volumeNames"]
    if any(name.startswith(reserved.RESERVED_VOLUMES) for name in volume_names):
        yield _SAID["reservedVolumes"]
