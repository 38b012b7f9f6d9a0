"""What only the operator reads reaches no pod: no edit of it makes another revision (spec/operator.md#Q14)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operator_support as make
from bookie_operator.model import assignment
from bookie_operator.model.base import Model
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.resources import fleet

DURATIONS = st.sampled_from(["1s", "90s", "2h"])
AMOUNTS = st.sampled_from(["1Mi", "4Gi"])
FLAGS = st.booleans()
SIZES = st.sampled_from(["1Gi", "3Gi"])


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


# Every field that no bookie reads, and what it may say. A new field stands here, or in READ.
OPERATORS: dict[str, st.SearchStrategy[Any]] = {
    "replicas": st.integers(3, 12),
    "metadataService.expectedInstanceId": one_of("a", "b"),
    "metadataService.initialize": one_of("IfAbsent", "Never"),
    "quorum.ensembleSize": st.integers(3, 5),
    "quorum.writeQuorum": st.integers(2, 3),
    "quorum.ackQuorum": st.integers(1, 2),
    "storage.acknowledgeNoJournal": one_of("IAcceptLossOnCorrelatedPowerFailure"),
    "storage.journal.volumes.size": SIZES,
    "storage.ledgers.volumes.size": SIZES,
    "storage.index.volumes.size": SIZES,
    "storage.retention.onScaleDown": one_of("Retain", "Delete"),
    "storage.retention.keepFor": DURATIONS,
    "storage.layoutChange": one_of("Refuse", "RollingRebuild"),
    "repair.regeneration": one_of("Gated", "Manual"),
    "repair.maxConcurrent": st.integers(1, 8),
    "repair.maxPerDay": st.integers(0, 20),
    "repair.maxPerDayPerZone": st.integers(0, 20),
    "repair.stabilization": DURATIONS,
    "repair.peerGrace": DURATIONS,
    "repair.reattachGrace": DURATIONS,
    "repair.lostNode.policy": one_of("Wait", "Replace"),
    "repair.lostNode.after": DURATIONS,
    "repair.localDiskReset": one_of("Hold", "Auto"),
    "repair.staleVolume": one_of("Hold", "Repair"),
    "disruption.pdb": FLAGS,
    "disruption.maxUnavailable": st.integers(0, 8),
    "disruption.onDrain": one_of("Restart", "ReadOnlyFirst"),
    "autorecovery.enabled": FLAGS,
    "autorecovery.replicas": st.integers(1, 8),
    "autorecovery.lossDelay": DURATIONS,
    "autorecovery.resources.requests": st.fixed_dictionaries({"memory": AMOUNTS}),
    "autorecovery.resources.limits": st.fixed_dictionaries({"memory": AMOUNTS}),
    "rollout.strategy": one_of("Automatic", "Manual"),
    "rollout.paused": FLAGS,
    "rollout.soakSeconds": st.integers(0, 600),
    "rollout.canary.count": st.integers(0, 16),
    "rollout.canary.soakSeconds": st.integers(0, 600),
    "rollout.onFailure": one_of("Halt", "Rollback"),
    "rollout.maxSecondsPerBookie": st.integers(60, 3600),
    "rollout.windows": st.lists(st.just({"schedule": "0 2 * * *", "duration": "4h", "timeZone": "UTC"}), max_size=2),
    "rollout.ignoreWindowsUntil": one_of("2026-11-23T04:00:00Z"),
    "scaleDown.openLedgers": one_of("Wait", "Recover"),
    "scaleDown.copyRate": AMOUNTS,
    "scaleDown.proofInterval": DURATIONS,
    "lifecycle.paused": FLAGS,
    "lifecycle.hibernate": FLAGS,
    "lifecycle.deletionProtection": FLAGS,
    "lifecycle.deletionPolicy": one_of("Retain", "Delete"),
}
# What reaches a pod, whole or in part; of volumes also what only their claims have.
READ = (
    *("image", "imagePullPolicy", "imagePullSecrets", "zones", "pools", "placement", "resources", "config", "network"),
    *("security", "podTemplate", "metadataService.uri", "metadataService.sessionTimeout", "metadataService.security"),
    *("storage.journalWriteData", "repair.copyRate", "lifecycle.terminationGrace"),
    *(
        f"storage.{role}.volumes.{part}"
        for role in ("journal", "ledgers", "index")
        for part in ("name", "kind", "storageClassName", "accessMode", "allowSharedFilesystem", "added")
    ),
)
SHAPES: dict[str, dict[str, Any]] = {
    "zones": {},
    "plain": {"zones": None},
    "pools": {"zones": None, "pools": [{"name": "a", "replicas": 3}, {"name": "b", "replicas": 1, "zone": "b"}]},
}


def leaves(model: type[Model], path: str = "") -> Iterator[str]:
    for field in model.model_fields.values():
        here = f"{path}.{field.alias}" if path else str(field.alias)
        inner = [one for one in models(field.annotation) if issubclass(one, Model)]
        if inner:
            yield from leaves(inner[0], here)
        else:
            yield here


def models(annotation: Any) -> list[type]:
    own = [annotation] if isinstance(annotation, type) else []
    return own + [one for inner in get_args(annotation) for one in models(inner)]


def is_below(path: str, prefixes: Any) -> bool:
    return any(path == one or path.startswith(f"{one}.") for one in prefixes)


def test_every_field_is_read_by_bookies_or_by_the_operator_alone() -> None:
    found = set(leaves(BookieClusterSpec))

    assert {path for path in found if is_below(path, READ) is is_below(path, OPERATORS)} == set()


def put(spec: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    for part in way:
        if part == "volumes":
            spec = spec[part][0]
        else:
            spec = spec.setdefault(part, {})
    spec[last] = value


def templates(shape: str, said: dict[str, Any]) -> dict[str, Any]:
    """The pod templates of each pool, notes and all. Rules between fields are not asked: they are the API server's."""
    spec = make.spec(**SHAPES[shape])
    for path, value in said.items():
        if path != "replicas" or "pools" not in spec:
            put(spec, path, value)
    parsed = BookieClusterSpec.model_validate(spec)
    cluster = replace(make.cluster(), spec=parsed)
    sets = fleet.stateful_sets(cluster, assignment.assign(parsed, {}), make.IMAGE)
    return {one["metadata"]["name"]: one["spec"]["template"] for one in sets}


@settings(max_examples=12)
@given(st.data())
@pytest.mark.parametrize("path", OPERATORS)
def test_an_edit_of_what_only_the_operator_reads_makes_no_other_revision(path: str, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(list(SHAPES)))

    assert templates(shape, {path: data.draw(OPERATORS[path])}) == templates(shape, {})


@pytest.mark.slow
@given(shape=st.sampled_from(list(SHAPES)), edits=st.lists(st.fixed_dictionaries({}, optional=OPERATORS), max_size=4))
def test_no_such_edits_together_make_one(shape: str, edits: list[dict[str, Any]]) -> None:
    said: dict[str, Any] = {}
    for edit in edits:
        said |= edit
        assert templates(shape, said) == templates(shape, {})
