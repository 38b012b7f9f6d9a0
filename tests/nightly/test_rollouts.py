"""What changes pods: it goes one bookie after the other, goes back, waits, and touches nothing where it is wrong."""

import pytest

from fleet_support import Fleet, operator_away
from short_lives_support import dying_after_every_write

pytestmark = pytest.mark.cluster

# As an auditor would that knows not whose replicas are missing; or away with the marks, as a worker does.
MARKS = """
import sys
from kazoo.client import KazooClient
client = KazooClient(hosts="zookeeper:2181", timeout=20.0)
client.start(30)
for ledger in map(int, sys.argv[2:]):
    digits = f"{ledger:016x}"
    levels = "/".join(digits[start : start + 4] for start in range(0, 16, 4))
    path = f"/ledgers/underreplication/ledgers/{levels}/urL{ledger:010d}"
    if sys.argv[1] == "mark":
        client.create(path, b"", makepath=True)
    else:
        client.delete(path)
client.stop()
"""
MARKED_MAX = 20


def others(fleet: Fleet, before: dict[str, str]) -> set[str]:
    """Names of the pods that are not those of `before`."""
    return {name for name, uid in fleet.uids().items() if before.get(name) != uid}


def test_an_image_that_nobody_has_goes_back_by_itself(fleet: Fleet) -> None:
    before, image = fleet.uids(), fleet.resource()["spec"]["image"]
    fleet.edits(rollout={"onFailure": "Rollback"})
    fleet.sees("status.rollout.lastGood", lambda: fleet.status()["rollout"].get("lastGood"))

    fleet.edits(image="bookie:nobody-made-this")
    told = fleet.says("Stalled", "RolledBack")
    assert "image" in told
    fleet.sees("all to serve", lambda: all(one["state"] == "Serving" for one in fleet.status()["bookies"]))
    assert fleet.condition("Ready")["status"] == "True"
    assert fleet.resource()["spec"]["image"] == "bookie:nobody-made-this", "the spec is the user's"
    assert len(others(fleet, before)) == 1, "nobody but the first was tried"

    fleet.edits(image=image, rollout={"onFailure": None})
    fleet.settled()
    assert len(others(fleet, before)) == 1, "the others run what the spec says again"


def test_one_bookie_soaks_before_the_others_follow(fleet: Fleet) -> None:
    before = fleet.uids()
    fleet.edits(rollout={"canary": {"count": 1, "soakSeconds": 25}}, config={"flushInterval": "7700"})
    told = fleet.sees(
        "the canary alone", lambda: "alone until" in (text := str(fleet.condition("UpToDate").get("message"))) and text
    )
    assert len(others(fleet, before)) == 1, told
    fleet.sees("all to be others", lambda: len(others(fleet, before)) == len(before))
    fleet.edits(rollout={"canary": None})


@pytest.mark.operator_lives
def test_a_setting_reaches_every_bookie_while_the_operator_dies_after_every_write(fleet: Fleet) -> None:
    before = fleet.uids()
    with dying_after_every_write() as deaths:
        fleet.edits(config={"flushInterval": None})
        fleet.sees("all to be others", lambda: len(others(fleet, before)) == len(before), timeout_s=900.0)
        died = deaths()
    assert died >= len(before), "at least one death a bookie"


def test_a_ledger_that_an_auditor_marked_holds_a_roll_out_until_a_worker_has_looked_at_it(fleet: Fleet) -> None:
    before, first = fleet.uids(), min(fleet.names())
    config = "--config /etc/bookie/bookie.properties"
    listed = fleet.types(
        f"kubectl exec {first} -- bookie ledger list --naming {fleet.bookie(first)['bookieId']} {config}"
    )
    marked = " ".join(listed.split()[:MARKED_MAX])

    def marks(verb: str) -> None:
        fleet.types(f"kubectl exec -i {first} -- python - {verb} {marked} <<'END'\n{MARKS}\nEND")

    def waits() -> bool:
        return "auto-recovery has marked ledgers" in str((fleet.status().get("rollout") or {}).get("waitingFor"))

    with operator_away():  # its last look may be of a moment ago, and would do for a minute
        marks("mark")
    try:
        fleet.edits(config={"flushInterval": "7300"})
        fleet.sees("the roll-out to wait for them", waits, detail=lambda: str(fleet.status().get("rollout")))
        assert fleet.uids() == before
    finally:
        marks("unmark")
    fleet.edits(config={"flushInterval": None})
    fleet.settled()


def taken_live(fleet: Fleet) -> dict[str, set[str]]:
    """The fields that each bookie took as it ran."""
    return {one["name"]: set(one.get("takenLive", ())) for one in fleet.status()["bookies"]}


def starts(fleet: Fleet) -> dict[str, int]:
    """How often the container of each bookie was started again."""
    found = {name: pod["status"]["containerStatuses"] for name, pod in fleet.pods().items()}
    return {name: sum(one["restartCount"] for one in statuses) for name, statuses in found.items()}


def test_what_a_running_bookie_takes_restarts_nobody(fleet: Fleet) -> None:
    before, first, started = fleet.uids(), min(fleet.names()), starts(fleet)
    fields = {"spec.config.logLevel", "spec.repair.copyRate"}
    fleet.edits(config={"logLevel": "DEBUG"}, repair={"copyRate": "8Mi"})
    fleet.sees("all to have taken it", lambda: taken_live(fleet) == dict.fromkeys(before, fields))
    fleet.settled()
    for pod in before:
        told = fleet.types(f"kubectl logs {pod} | grep -e 'setting changed' -e DEBUG")
        assert "setting changed logLevel=DEBUG" in told, told
        assert "setting changed copyRateBytesPerSecond=8388608" in told, told
    fleet.types(f"kubectl delete pod {first}")
    fleet.settled()
    assert "DEBUG" in fleet.types(f"kubectl exec {first} -- cat /etc/bookie/bookie.properties"), "it begins with it"

    fleet.edits(config={"logLevel": None}, repair={"copyRate": None})
    undone = {name: fields if name == first else set() for name in before}
    fleet.sees("all to be as before", lambda: taken_live(fleet) == undone)
    fleet.settled()
    assert others(fleet, before) == {first}, "nobody restarts for it"
    assert starts(fleet).items() >= {key: count for key, count in started.items() if key != first}.items()


def revisions(fleet: Fleet) -> str:
    return fleet.types("kubectl get statefulset -o jsonpath='{.items[*].status.updateRevision}'")


def test_what_no_bookie_reads_restarts_nobody(fleet: Fleet) -> None:
    before, was = fleet.uids(), revisions(fleet)
    fleet.edits(repair={"regeneration": "Manual"})
    fleet.settled()
    assert (fleet.uids(), revisions(fleet)) == (before, was), "it makes no other revision"
    fleet.edits(repair={"regeneration": "Gated"}, security={"tls": {"secretName": "later"}})
    fleet.sees("the Secret for later to be noted", lambda: revisions(fleet) != was)
    fleet.settled()
    fleet.edits(security={"tls": {"secretName": None}})
    fleet.settled()
    assert fleet.uids() == before


def test_a_paused_cluster_changes_nothing_and_then_goes_on(fleet: Fleet) -> None:
    before = fleet.uids()
    fleet.edits(lifecycle={"paused": True}, resources={"requests": {"cpu": "90m"}})
    assert "paused" in fleet.says("Reconciling", "Paused")
    fleet.types("kubectl delete pod $NAME-zone-a-0")
    fleet.sees("it to serve again", lambda: fleet.bookie(fleet.names()[0])["state"] == "Serving")
    assert others(fleet, before) == {f"{fleet.names()[0]}"}

    fleet.edits(lifecycle={"paused": False}, resources={"requests": {"cpu": "100m"}})
    fleet.settled()
    assert others(fleet, before) == {fleet.names()[0]}, "an edit and its reverse end where they began"


def test_a_wrong_template_touches_nothing(fleet: Fleet) -> None:
    def sets() -> str:
        return fleet.types("kubectl get statefulset -o jsonpath='{.items[*].metadata.resourceVersion}'")

    before, versions = fleet.uids(), sets()
    patch = "kubectl patch bookiecluster $NAME --type=merge --patch"
    assert "hostNetwork" in fleet.is_refused(
        f"""{patch} '{{"spec":{{"podTemplate":{{"spec":{{"hostNetwork":true}}}}}}}}'"""
    )
    fleet.edits(podTemplate={"spec": {"containers": [{"name": "bookie", "imgae": "typo"}]}})
    assert "imgae" in fleet.says("Stalled", "SpecInvalid")
    assert (fleet.uids(), sets()) == (before, versions)
    fleet.types(
        """kubectl patch bookiecluster $NAME --type=json --patch '[{"op": "remove", "path": "/spec/podTemplate"}]'"""
    )
    fleet.settled()
    assert fleet.uids() == before


def test_a_sidecar_a_label_and_a_variable_by_the_template(fleet: Fleet) -> None:
    before, image = fleet.uids(), fleet.resource()["spec"]["image"]
    safe = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    ends_when_told = [
        "sh",
        "-c",
        "trap 'exit 0' TERM; sleep infinity & wait",
    ]  # else a pod takes its whole grace to end
    sidecar = {"name": "logs", "image": image, "command": ends_when_told, "securityContext": safe}
    bookie = {"name": "bookie", "env": [{"name": "MALLOC_ARENA_MAX", "value": "2"}]}
    fleet.edits(podTemplate={"metadata": {"labels": {"team": "a"}}, "spec": {"containers": [bookie, sidecar]}})
    fleet.sees("all to be others", lambda: len(others(fleet, before)) == len(before))
    fleet.settled()
    for pod in fleet.pods().values():
        assert [one["name"] for one in pod["spec"]["containers"]] == ["bookie", "logs"]
        assert pod["metadata"]["labels"]["team"] == "a"

    before = fleet.uids()
    fleet.types(
        """kubectl patch bookiecluster $NAME --type=json --patch '[{"op": "remove", "path": "/spec/podTemplate"}]'"""
    )
    fleet.sees("all to be others", lambda: len(others(fleet, before)) == len(before))
    assert all(len(pod["spec"]["containers"]) == 1 for pod in fleet.pods().values())


def test_a_restart_that_a_person_asks_for(fleet: Fleet) -> None:
    before = fleet.uids()
    name = fleet.types("kubectl create -f examples/bookieoperation.yaml -o name").strip()
    fleet.sees("it to end", lambda: "Complete" in fleet.types(f"kubectl get {name} -o jsonpath='{{.status.phase}}'"))
    assert others(fleet, before) == {"ledgers-zone-a-0"}
    assert "OperationCompleted" in fleet.types("kubectl get events.events.k8s.io")
    assert "never changes" in fleet.is_refused(
        f"""kubectl patch {name} --type=merge -p '{{"spec":{{"reason":"another"}}}}'"""
    )
