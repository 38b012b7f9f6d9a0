"""Specs: what is accepted, what is refused with which sentence, and what defaults mean."""

import inspect
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import operator_support as make
from bookie.base import ids
from bookie.base.errors import BadInput
from bookie_operator.model import checks, cluster, names, reserved, rules, values, volume_rules
from bookie_operator.model.cluster import SpecInvalid
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.resources import fleet


def storage(**changes: Any) -> dict[str, Any]:
    return make.spec()["storage"] | changes


def volumes(*names_: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "size": "1Gi"} for name in names_]}


def added(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "size": "1Gi", "added": True}]}


def passing(*names_: str, **more: Any) -> dict[str, Any]:
    return {"volumes": [one | {"kind": "Ephemeral"} | more for one in volumes(*names_)["volumes"]]}


def all_passing(**more: Any) -> dict[str, Any]:
    return storage(journal=passing("journal"), ledgers=passing("ledgers", **more), index={"volumes": []})


GOES = {"lifecycle": {"deletionPolicy": "Delete"}}


def sentence(**changes: Any) -> str:
    with pytest.raises(SpecInvalid) as caught:
        make.cluster(**changes)
    return str(caught.value)


def test_a_minimal_spec_has_the_defaults_of_the_field() -> None:
    spec = make.cluster(quorum=None, repair=None, rollout=None, zones=None, storage=storage(journalWriteData=True)).spec

    assert (spec.quorum.ensemble_size, spec.quorum.write_quorum, spec.quorum.ack_quorum) == (3, 3, 2)
    assert spec.repair.regeneration.value == "Gated"
    assert (spec.rollout.strategy, spec.rollout.paused) == ("Automatic", False)
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
        ({"zones": [{"name": "a"}, {"name": "b"}]}, "spec.storage.journalWriteData"),
        ({"lifecycle": {"terminationGrace": "30s"}}, "spec.lifecycle.terminationGrace"),
        ({"lifecycle": {"terminationGrace": "119s"}}, "spec.lifecycle.terminationGrace"),
        ({"storage": storage(ledgers=volumes("a", "b", "c"), index=volumes("x", "y"))}, "spec.storage.index"),
        ({"storage": storage(ledgers=volumes("a", "b", "c"), index=volumes("x"))}, "spec.storage.index"),
        ({"storage": storage(journal=added("journal"))}, "spec.storage.journal.volumes: "),
        ({"storage": storage(ledgers=volumes("same"), index=volumes("same"))}, "spec.storage: a volume name"),
        (
            {"rollout": {"windows": [{"schedule": "0 2 * * *", "duration": "29m"}]}},
            "spec.rollout.windows: a window is shorter",
        ),
        (
            {"rollout": {"windows": [{"schedule": "0 2 * * *", "duration": "169h"}]}},
            "spec.rollout.windows: a window is longer",
        ),
        ({"storage": storage(ledgers=volumes("bookie-tmp"))}, "spec.storage: a volume's name begins"),
        ({"network": {"ports": {"data": 3181, "admin": 3181}}}, "spec.network.ports"),
        ({"network": {"ipFamilies": ["IPv6"]}}, "spec.network.ipFamilies needs"),
        ({"network": {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "PreferDualStack"}}, "spec.network.ipFamilies needs"),
        ({"network": {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "RequireDualStack"}}, "spec.network.ipFamilies needs"),
        (
            {"network": {"ipFamilies": ["IPv6", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}},
            "spec.network.ipFamilies names one family twice",
        ),
        (
            {"storage": storage(ledgers=passing("ledgers"))} | GOES,
            "spec.storage: the volumes of one bookie are in part",
        ),
        (
            {"storage": all_passing(storageClassName="fast")} | GOES,
            "spec.storage: the volumes have a volume of kind Ephemeral",
        ),
        (
            {"storage": all_passing(allowSharedFilesystem=False)} | GOES,
            "spec.storage: the volumes have a volume of kind",
        ),
        ({"storage": all_passing()}, "spec.storage: volumes of kind Ephemeral go with their pods"),
        (
            {"storage": all_passing(), "lifecycle": {"deletionPolicy": "Delete", "hibernate": True}},
            "spec.lifecycle.hibernate ends all pods",
        ),
        ({"security": {"tls": {"clientCertificates": True}}}, "spec.security.tls.clientCertificates needs"),
        ({"security": {"authentication": {"mode": "Permissive"}}}, "spec.security.authentication.mode is not"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_spec_is_refused_with_the_sentence_of_its_cel_rule(changes: dict[str, Any], field: str) -> None:
    text = sentence(**changes)

    assert text.startswith(field)
    every = (rules.SPEC, rules.QUORUM, volume_rules.STORAGE, rules.PORTS, rules.NETWORK, rules.SECURITY, rules.ROLLOUT)
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


@pytest.mark.parametrize("duration", ["30m", "168h"], ids=["as long as one bookie may take", "a week"])
def test_a_window_may_be_as_short_and_as_long_as_its_rules_say(duration: str) -> None:
    rollout = {"maxSecondsPerBookie": 1_800, "windows": [{"schedule": "0 2 * * *", "duration": duration}]}

    assert checks.problems(make.cluster(rollout=rollout).spec, "ledgers") == ()


def test_unknown_fields_of_a_newer_crd_are_ignored() -> None:
    assert make.cluster(fieldOfTheFuture={"x": 1}).spec.replicas == 4


def test_a_status_that_cannot_be_read_counts_as_lost() -> None:
    assert cluster.parse_status({"bookies": "nonsense"}) == BookieClusterStatus()
    for since in ("yesterday", "", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-24:00"):
        assert cluster.parse_status({"hibernation": {"state": "Waking", "since": since}}) == BookieClusterStatus()
    good = {"inputs": "1-a", "rest": "", "marks": "[]", "parts": "{}"}
    assert (
        cluster.parse_status({"rollout": {"desired": 1, "updated": 1, "inputs": "", "lastGood": good}}).rollout is None
    )


def test_checks_say_nothing_about_a_good_spec() -> None:
    assert checks.problems(make.cluster().spec, "ledgers") == ()


def test_every_rule_that_has_a_name_is_checked_in_python_too() -> None:
    source = inspect.getsource(checks)

    found = set(re.findall(r'_SAID\["(\w+)"\]', source))
    for prefix in re.findall(r'_broken_kinds\(.*, "(\w+)"\)', source):
        found |= {f"{prefix}{end}" for end in re.findall(r'_SAID\[f"{prefix}(\w+)"\]', source)}
    assert found == set(checks._SAID)


def test_no_two_rules_share_a_name_and_no_transition_rule_has_one() -> None:
    """`checks.py` finds a rule by its name, and only the API server sees transitions."""
    lists = (rules.ROOT, rules.SPEC, rules.ZONES, rules.QUORUM, rules.METADATA, volume_rules.STORAGE, rules.PORTS)
    named = [rule for one in lists for rule in one if rule.name]

    assert len({rule.name for rule in named}) == len(named)
    assert not [rule.name for rule in named if "oldSelf" in rule.cel]


def test_no_journal_over_two_zones_is_allowed_to_who_signs_for_it() -> None:
    signed = storage(acknowledgeNoJournal="IAcceptLossOnCorrelatedPowerFailure")

    spec = make.cluster(zones=[{"name": "a"}, {"name": "b"}], storage=signed).spec

    assert not spec.storage.journal_write_data


@pytest.mark.parametrize(
    "name", ["1ledgers", "my.ledgers", "Ledgers", "ledgers-", "-ledgers", "led_gers", "l" * 31, "", "ledgers\n"]
)
def test_a_name_that_cannot_become_a_service_is_refused(name: str) -> None:
    manifest = make.manifest()
    manifest["metadata"]["name"] = name

    with pytest.raises(SpecInvalid, match=r"metadata\.name"):
        cluster.parse(manifest)


LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # DNS-1123: pods, claims, values of labels
SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")  # DNS-1035
REVISION = "-0123456789"  # what a StatefulSet appends in the label of a revision


@given(
    name=st.from_regex(reserved.CLUSTER_NAME, fullmatch=True).filter(
        lambda text: len(text) <= reserved.CLUSTER_NAME_MAX
    ),
    zone=st.from_regex(r"[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?", fullmatch=True),
    namespace=st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True),
    ordinal=st.integers(0, 149),
)
@example("l" * 30, "z" * 20, "n" * 63, 149)
@example("a", "0", "0", 0)
def test_every_name_made_of_names_that_are_taken_is_one_that_kubernetes_takes(
    name: str, zone: str, namespace: str, ordinal: int
) -> None:
    manifest = make.manifest(zones=[{"name": zone}, {"name": f"{zone[:18]}-y"}, {"name": f"{zone[:18]}-z"}])
    manifest["metadata"] |= {"name": name, "namespace": namespace}
    made = {(one["kind"], one["metadata"]["name"]): one for one in fleet.everything(cluster.parse(manifest), "image")}
    pod = names.pod(name, zone, ordinal)

    for (kind, child), one in made.items():
        assert (SERVICE if kind == "Service" else LABEL).fullmatch(child), (kind, child)
        assert all(len(value) <= 63 for value in one["metadata"]["labels"].values())
    assert LABEL.fullmatch(pod)
    assert len(names.stateful_set(name, zone) + REVISION) <= 63
    assert len(f"{names.metadata_job(name)}-abcde") <= 63
    assert len(f"{pod}.{names.headless_service(name)}.{namespace}.svc.{'d' * 63}") <= 253
    assert ids.parse_bookie_id(names.bookie_id(namespace, name, zone, ordinal))


@pytest.mark.parametrize(("text", "ms"), [("90s", 90_000), ("1h30m", 5_400_000), ("250ms", 250), ("0s", 0)])
def test_durations_are_milliseconds(text: str, ms: int) -> None:
    assert values.parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "5", "5 s", "-1s", "s", "1d"])
def test_a_duration_without_unit_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="duration"):
        values.parse_duration(text)


@pytest.mark.parametrize(("one", "other"), [("1000m", "1"), ("1Gi", "1024Mi"), ("0.5", "500m"), ("2000", "2k")])
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
    assert values.format_time(values.parse_duration("99999999999h")) == "9999-12-31T23:59:59Z"
    with pytest.raises(BadInput, match="RFC 3339"):
        values.parse_time("yesterday")
