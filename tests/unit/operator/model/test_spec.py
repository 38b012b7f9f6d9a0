"""Specs: what is accepted, what is refused with which sentence, and what defaults mean."""

from typing import Any

import pytest

import operator_support as make
from bookie.base.errors import BadInput
from bookie_operator.model import checks, cluster, names, rules, values
from bookie_operator.model.cluster import SpecInvalid
from bookie_operator.model.status import BookieClusterStatus


def storage(**changes: Any) -> dict[str, Any]:
    return make.spec()["storage"] | changes


def volumes(*names_: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "size": "1Gi"} for name in names_]}


def sentence(**changes: Any) -> str:
    with pytest.raises(SpecInvalid) as caught:
        make.cluster(**changes)
    return str(caught.value)


def test_a_minimal_spec_has_the_defaults_of_the_field() -> None:
    spec = make.cluster(quorum=None, repair=None, zones=None, storage=storage(journalWriteData=True)).spec

    assert (spec.quorum.ensemble_size, spec.quorum.write_quorum, spec.quorum.ack_quorum) == (3, 3, 2)
    assert spec.repair.regeneration.value == "Gated"
    assert spec.pools() == (("default", None, 4),)
    assert spec.tolerance == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (
            {"replicas": 2, "zones": None, "storage": storage(journalWriteData=True)},
            "spec.replicas is less than spec.q",
        ),
        ({"replicas": 3, "zones": [{"name": f"z{n}"} for n in range(4)]}, "spec.replicas is less than the"),
        ({"quorum": {"ensembleSize": 3, "writeQuorum": 4}}, "spec.quorum.writeQuorum"),
        ({"quorum": {"writeQuorum": 2, "ackQuorum": 3}}, "spec.quorum.ackQuorum"),
        ({"repair": {"maxConcurrent": 2}}, "spec.repair.maxConcurrent"),
        ({"disruption": {"maxUnavailable": 2}}, "spec.disruption.maxUnavailable"),
        ({"repair": {"regeneration": "BookieLocal"}}, "spec.repair.regeneration"),
        ({"config": {"journalDirectories": "/x"}}, "spec.config"),
        ({"zones": [{"name": "a"}, {"name": "b"}]}, "spec.storage.journalWriteData"),
        ({"lifecycle": {"terminationGrace": "30s"}}, "spec.lifecycle.terminationGrace"),
        ({"storage": storage(ledgers=volumes("a", "b", "c"), index=volumes("x", "y"))}, "spec.storage.index"),
        ({"storage": storage(ledgers=volumes("same"), index=volumes("same"))}, "spec.storage: a volume name"),
        ({"network": {"ports": {"data": 3181, "admin": 3181}}}, "spec.network.ports"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_spec_is_refused_with_the_sentence_of_its_cel_rule(changes: dict[str, Any], field: str) -> None:
    text = sentence(**changes)

    assert text.startswith(field)
    every = (rules.SPEC, rules.QUORUM, rules.STORAGE, rules.PORTS)
    assert text in {rule.message for group in every for rule in group}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"replicas": "many"}, "spec.replicas"),
        ({"metadataService": {"uri": "http://x"}}, "spec.metadataService.uri"),
        ({"repair": {"stabilization": "soon"}}, "spec.repair.stabilization"),
        ({"storage": None}, "spec.storage"),
        ({"storage": storage(journal={"volumes": []})}, "spec.storage.journal.volumes"),
    ],
)
def test_a_spec_of_the_wrong_shape_is_refused_with_its_path(changes: dict[str, Any], field: str) -> None:
    assert sentence(**changes).startswith(field)


def test_unknown_fields_of_a_newer_crd_are_ignored() -> None:
    assert make.cluster(fieldOfTheFuture={"x": 1}).spec.replicas == 4


def test_a_status_that_cannot_be_read_counts_as_lost() -> None:
    assert cluster.parse_status({"bookies": "nonsense"}) == BookieClusterStatus()


def test_checks_say_nothing_about_a_good_spec() -> None:
    assert checks.problems(make.cluster().spec) == ()


def test_no_journal_over_two_zones_is_allowed_to_who_signs_for_it() -> None:
    signed = storage(acknowledgeNoJournal="IAcceptLossOnCorrelatedPowerFailure")

    spec = make.cluster(zones=[{"name": "a"}, {"name": "b"}], storage=signed).spec

    assert not spec.storage.journal_write_data


def test_bookies_are_split_evenly_and_the_first_zones_get_the_rest() -> None:
    spec = make.cluster(replicas=5).spec

    assert [(pool, count) for pool, _, count in spec.pools()] == [("zone-a", 2), ("zone-b", 2), ("zone-c", 1)]


def test_names_that_kubernetes_makes_of_ours_fit_into_labels() -> None:
    longest = names.pod("c" * 30, "z" * 20, 149)

    assert len(longest) <= 63
    assert len(names.stateful_set("c" * 30, "z" * 20)) + len("-0123456789") <= 63


@pytest.mark.parametrize(("text", "ms"), [("90s", 90_000), ("1h30m", 5_400_000), ("250ms", 250), ("0s", 0)])
def test_durations_are_milliseconds(text: str, ms: int) -> None:
    assert values.parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "5", "5 s", "-1s", "s", "1d"])
def test_a_duration_without_unit_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="duration"):
        values.parse_duration(text)


@pytest.mark.parametrize(("one", "other"), [("1000m", "1"), ("1Gi", "1024Mi"), ("0.5", "500m")])
def test_quantities_are_equal_by_value(one: str, other: str) -> None:
    assert values.is_same_quantity(one, other)
    assert not values.is_same_quantity(one, "7")
    assert not values.is_same_quantity("not a number", other)


def test_a_bad_quantity_is_refused() -> None:
    with pytest.raises(BadInput, match="quantity"):
        values.parse_quantity("1 GiB")


def test_times_go_out_and_come_back_in_seconds() -> None:
    assert values.format_time(1_800_000_000_999) == "2027-01-15T08:00:00Z"
    assert values.parse_time("2027-01-15T08:00:00Z") == 1_800_000_000_000
    with pytest.raises(BadInput, match="RFC 3339"):
        values.parse_time("yesterday")
