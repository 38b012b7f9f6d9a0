"""The CEL rules again, in Python: an operator under an older CRD must not act on a spec that the newer one refuses.

Same sentences as `rules.py`. Transition rules are missing here on purpose: only the API server sees both versions.
"""

import re
from collections.abc import Iterator

from bookie_operator.model import rules
from bookie_operator.model.spec import BookieClusterSpec, Regeneration
from bookie_operator.model.values import parse_duration


def problems(spec: BookieClusterSpec, name: str) -> tuple[str, ...]:
    """One sentence for each rule that `spec` of the cluster `name` breaks; empty when it is good."""
    return (*_broken_name(name), *_broken(spec))


def _broken_name(name: str) -> Iterator[str]:
    if len(name) > rules.CLUSTER_NAME_MAX:
        yield rules.ROOT[0].message
    if not re.fullmatch(rules.CLUSTER_NAME, name):
        yield rules.ROOT[1].message


def _broken(spec: BookieClusterSpec) -> Iterator[str]:
    spec_rules = {rule.field: rule.message for rule in rules.SPEC if "oldSelf" not in rule.cel}
    quorum = spec.quorum
    if spec.replicas < quorum.ensemble_size:
        yield rules.SPEC[0].message
    if spec.zones is not None and spec.replicas < len(spec.zones):
        yield rules.SPEC[1].message
    if quorum.ensemble_size < quorum.write_quorum:
        yield rules.QUORUM[0].message
    if quorum.write_quorum < quorum.ack_quorum:
        yield rules.QUORUM[1].message
    tolerated = max(1, spec.tolerance)
    if spec.repair.max_concurrent > tolerated:
        yield spec_rules[".repair.maxConcurrent"]
    if spec.disruption.max_unavailable > tolerated:
        yield spec_rules[".disruption.maxUnavailable"]
    if spec.repair.regeneration is Regeneration.BOOKIE_LOCAL and spec.lifecycle.deletion_protection:
        yield spec_rules[".repair.regeneration"]
    yield from _broken_storage(spec, spec_rules)
    ports = spec.network.ports
    if len({ports.data, ports.admin, ports.admin_tls, ports.metrics}) < 4:
        yield rules.PORTS[0].message


def _broken_storage(spec: BookieClusterSpec, spec_rules: dict[str, str]) -> Iterator[str]:
    storage = spec.storage
    if not storage.journal_write_data:
        if storage.acknowledge_no_journal is None and len(spec.zones or ()) < 3:
            yield spec_rules[".storage.journalWriteData"]
        if parse_duration(spec.lifecycle.termination_grace) < 120_000:
            yield spec_rules[".lifecycle.terminationGrace"]
    if len(storage.index.volumes) not in (0, len(storage.ledgers.volumes)):
        yield rules.STORAGE[0].message
    volume_names = [volume.name for _, volume in storage.by_role()]
    if len(set(volume_names)) < len(volume_names):
        yield rules.STORAGE[1].message
    if any(name.startswith(rules.RESERVED_VOLUMES) for name in volume_names):
        yield rules.STORAGE[2].message
