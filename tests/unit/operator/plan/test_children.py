"""Children: applied when missing or drifted, never stolen, never shrunk; metadata is initialised once."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.gateways import pod_types
from bookie_operator.model.status import BookieClusterStatus, MetadataStatus
from bookie_operator.plan import children, fleet
from bookie_operator.plan.actions import Apply
from bookie_operator.plan.children import MetadataStep
from bookie_operator.plan.observation import Observation
from bookie_operator.resources import fleet as manifests

Live = dict[tuple[str, str], dict[str, Any]]


def live(**spec: Any) -> Live:
    """Everything as applied, and the Job done."""
    found = {
        (one["kind"], one["metadata"]["name"]): one for one in manifests.everything(make.cluster(**spec), make.IMAGE)
    }
    found[("Job", "ledgers-metadata")]["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    return found


def look(found: Live, **changes: Any) -> Observation:
    return make.observation(children=found, **changes)


def applied(observation: Observation) -> list[str]:
    return [str(action) for action in fleet.decide(observation).actions]


def test_a_cluster_as_applied_needs_nothing() -> None:
    assert applied(look(live())) == []


def test_a_missing_child_is_made_again() -> None:
    found = live()
    del found[("Service", "ledgers-bookies")]

    assert applied(look(found)) == ["apply Service ledgers-bookies"]


def test_while_a_stateful_set_is_away_the_budget_says_how_many_pods_there_have_to_be() -> None:
    """Kubernetes counts a pod without a controller as healthy and not as expected: one more could go for each."""
    found = live()
    del found[("StatefulSet", "ledgers-zone-a")]

    (budget,) = [
        one.manifest["spec"]
        for one in fleet.decide(look(found)).actions
        if isinstance(one, Apply) and one.manifest["kind"] == "PodDisruptionBudget"
    ]

    assert "maxUnavailable" not in budget
    assert budget["minAvailable"] == 3, "of four bookies"


def test_a_drifted_child_is_applied_again() -> None:
    found = live()
    found[("Service", "ledgers-bookies")]["spec"]["publishNotReadyAddresses"] = False

    assert applied(look(found)) == ["apply Service ledgers-bookies"]


def test_each_pool_gets_the_bookies_that_it_was_found_to_have() -> None:
    found = live()
    pools = tuple(replace(pool, replicas=3) if pool.name == "zone-b" else pool for pool in look(found).pools)

    plan = fleet.decide(look(found, pools=pools))

    assert [action.manifest["spec"]["replicas"] for action in plan.actions] == [3]  # type: ignore[union-attr]


def test_children_of_somebody_else_are_not_touched() -> None:
    found, key = live(), ("StatefulSet", "ledgers-zone-b")
    del found[key]

    plan = fleet.decide(look(found, strangers={key: "it is another's"}))

    assert [str(action) for action in plan.actions] == ["apply PodDisruptionBudget ledgers-bookies"]
    assert [(each.reason, each.message) for each in plan.obstacles] == [("NameConflict", "it is another's")]


def test_claim_templates_that_cannot_change_are_an_obstacle_not_a_loop() -> None:
    found = live()
    templates = found[("StatefulSet", "ledgers-zone-b")]["spec"]["volumeClaimTemplates"]
    templates[0]["spec"]["storageClassName"] = "another"

    plan = fleet.decide(look(found))

    assert [obstacle.reason for obstacle in plan.obstacles] == ["SpecInvalid"]


def test_templates_are_compared_by_value() -> None:
    found = live()
    templates = found[("StatefulSet", "ledgers-zone-b")]["spec"]["volumeClaimTemplates"]
    templates[0]["spec"]["resources"]["requests"]["storage"] = "1024Mi"

    assert fleet.decide(look(found)).obstacles == ()


def unborn(found: Live, **changes: Any) -> Observation:
    bookies = tuple(make.unborn(one) for one in make.fleet())
    return look(found, has_marked_claims=False, bookies=bookies, **changes)


def without_sets(found: Live) -> Live:
    return {key: one for key, one in found.items() if key[0] != "StatefulSet"}


def test_bookies_start_only_when_there_is_metadata() -> None:
    found = without_sets(live())
    del found[("Job", "ledgers-metadata")]

    assert applied(unborn(found)) == ["apply Job ledgers-metadata"]


def test_a_job_that_runs_is_left_alone() -> None:
    found = without_sets(live())
    found[("Job", "ledgers-metadata")] |= {"status": {}, "spec": {"backoffLimit": 1}}

    assert applied(unborn(found)) == []


@pytest.mark.parametrize("status", [{"succeeded": 1}, {"conditions": [{"type": "Complete", "status": "True"}]}])
def test_after_the_job_come_the_bookies(status: dict[str, Any]) -> None:
    found = without_sets(live())
    found[("Job", "ledgers-metadata")]["status"] = status

    assert [action.split()[1] for action in applied(unborn(found))] == ["StatefulSet"] * 3


def test_a_failed_job_is_an_obstacle_with_the_next_thing_to_try() -> None:
    found = without_sets(live())
    found[("Job", "ledgers-metadata")]["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}

    (obstacle,) = fleet.decide(unborn(found)).obstacles

    assert obstacle.reason == "MetadataInitFailed"
    assert "kubectl -n data logs job/ledgers-metadata" in obstacle.message


def test_metadata_is_never_initialised_a_second_time() -> None:
    """Whatever remembers the first time: our status, marked claims, an old fleet, or a spec that says Never."""
    status = BookieClusterStatus(metadata=MetadataStatus(initialized_at="2027-01-15T08:00:00Z"))
    never = {"metadataService": {"uri": "zk://zookeeper:2181/ledgers"}}
    nothing: Live = {}
    elsewhere = MetadataStatus(initialized_at="2027-01-15T08:00:00Z", uri="zk+hierarchical://wrong:2181/ledgers")
    lived = BookieClusterStatus(metadata=elsewhere, instance_id="instance")

    for observation in (
        unborn(nothing, status=status),
        unborn(nothing, status=lived),
        look(nothing, has_marked_claims=True),
        unborn({key: one for key, one in live().items() if key[0] == "StatefulSet"}),
        unborn(nothing, spec_changes=never),
    ):
        assert children.metadata_step(observation) is MetadataStep.READY
    assert (
        children.metadata_step(unborn(nothing, status=BookieClusterStatus(metadata=elsewhere))) is MetadataStep.WAITING
    )
    assert children.metadata_step(unborn(nothing)) is MetadataStep.WAITING


def test_a_request_above_its_limit_changes_nothing_of_what_runs() -> None:
    """The API server would take the ConfigMap and refuse the StatefulSet."""
    plan = fleet.decide(look(live(), spec_changes={"resources": {"limits": {"memory": "1Gi"}}}))

    assert plan.actions == ()
    assert [obstacle.reason for obstacle in plan.obstacles] == ["SpecInvalid"]
    assert "spec.resources.limits.memory is 1Gi" in plan.obstacles[0].message


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        ({"hostNetwork": True}, "hostNetwork is the operator's"),
        ({"containers": [{"name": "a", "imgae": "a"}]}, "containers[0].imgae is no field"),
    ],
)
def test_a_wrong_pod_template_changes_nothing_of_what_runs(overlay: dict[str, Any], words: str) -> None:
    wanted = {"podTemplate": {"spec": overlay}}
    types = pod_types.problems(make.cluster(**wanted).spec.pod_template)

    plan = fleet.decide(look(live(), spec_changes=wanted, template_problems=types))

    assert plan.actions == ()
    assert [obstacle.reason for obstacle in plan.obstacles] == ["SpecInvalid"]
    assert words in plan.obstacles[0].message
