"""Checks the CEL rules again, in Python: an operator under an older CRD must not act on a spec that the newer one
refuses.

The sentences are those of `rules.py`. Transition rules are missing here on purpose: only the API server sees both
versions.
"""

import re
from collections.abc import Iterator

from bookie_operator.model import rules
from bookie_operator.model.spec import BookieClusterSpec, Regeneration
from bookie_operator.model.values import parse_duration

_RULES = (*rules.ROOT, *rules.SPEC, *rules.QUORUM, *rules.STORAGE, *rules.PORTS)
# By the rule's name, so that a new rule may stand anywhere in its list.
_SAID = {rule.name: rule.message for rule in _RULES if rule.name}


def problems(spec: BookieClusterSpec, name: str) -> tuple[str, ...]:
    """Return one sentence for each rule that `spec` of the cluster `name` breaks; empty when it is good."""
    return (*_broken_name(name), *_broken(spec))


def _broken_name(name: str) -> Iterator[str]:
    if len(name) > rules.CLUSTER_NAME_MAX:
        yield _SAID["shortName"]
    if not re.fullmatch(rules.CLUSTER_NAME, name):
        yield _SAID["serviceName"]


def _broken(spec: BookieClusterSpec) -> Iterator[str]:
    quorum = spec.quorum
    if spec.replicas < quorum.ensemble_size:
        yield _SAID["replicasOfEnsemble"]
    if spec.zones is not None and spec.replicas < len(spec.zones):
        yield _SAID["replicasOfZones"]
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
    ports = spec.network.ports
    if len({ports.data, ports.admin, ports.admin_tls, ports.metrics}) < 4:
        yield _SAID["ports"]


def _broken_storage(spec: BookieClusterSpec) -> Iterator[str]:
    storage = spec.storage
    if not storage.journal_write_data:
        if storage.acknowledge_no_journal is None and len(spec.zones or ()) < 3:
            yield _SAID["noJournal"]
        if parse_duration(spec.lifecycle.termination_grace) < 120_000:
            yield _SAID["terminationGrace"]
    if len(storage.index.volumes) not in (0, len(storage.ledgers.volumes)):
        yield _SAID["indexVolumes"]
    volume_names = [volume.name for _, volume in storage.by_role()]
    if len(set(volume_names)) < len(volume_names):
        yield _SAID["volumeNames"]
    if any(name.startswith(rules.RESERVED_VOLUMES) for name in volume_names):
        yield _SAID["reservedVolumes"]
