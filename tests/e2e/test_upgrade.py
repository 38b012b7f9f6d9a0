"""The operator rolls out by itself on a real Kubernetes, under writers that note every acknowledged entry: an image, a
setting, and an image that nobody can pull (spec/operator.md#Q1 to Q8). Nothing acknowledged is lost by any of it.

The last by its name: a ledger that was written to while a bookie was away has one copy less until a replicator brings
it, and the story's audit (`test_story`), on the same fleet, wants to find what the story lost and nothing else.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import kube_engine
import kube_images
import kube_load
import kube_tools
import pages_support
import proof
from fleet_kubernetes import CLUSTER, KubernetesStage
from kube_setup import KIND, NAMESPACE
from oracle import Oracle
from waiting import wait_for

pytestmark = pytest.mark.cluster

TIMEOUT_S = 240.0
NEXT_IMAGE = "bookie:next"  # the page's; the same image under another tag
NO_IMAGE = "bookie:nobody-made-this"
COMMANDS = 'KEPT={}\neval "$(.venv/bin/python tests/cluster/cluster.py env)"\nexport KUBECONFIG=$KEPT\nNAME={}\n'


class Fleet:
    """What a person sees of it, and a note of what was ever seen that must not be."""

    def __init__(self, stage: KubernetesStage) -> None:
        self._stage = stage
        self.not_ready: list[str] = []
        self.away: list[list[str]] = []

    def edit(self, **spec: Any) -> None:
        self._stage.kubectl("patch", KIND, CLUSTER, "--type=merge", "--patch", json.dumps({"spec": spec}))

    def pods(self) -> dict[str, dict[str, Any]]:
        selector = f"bookie.dev/cluster={CLUSTER},app.kubernetes.io/component=bookie"
        found = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pods", "--selector", selector)["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def conditions(self) -> dict[str, dict[str, Any]]:
        resource = self._stage.resource()
        status = resource.get("status", {})
        if status.get("observedGeneration") != resource["metadata"]["generation"]:
            return {}
        return {one["type"]: one for one in status["conditions"]}

    def look(self) -> dict[str, dict[str, Any]]:
        """Its conditions; notes a Ready that is not True, and bookies that are away together."""
        found = self.conditions()
        if found and found["Ready"]["status"] != "True":
            self.not_ready.append(str(found["Ready"]))
        serving = {entry["name"] for entry in self._stage.status()["bookies"] if entry["state"] == "Serving"}
        away = sorted({entry["name"] for entry in self._stage.status()["bookies"]} - serving)
        if len(away) > 1:
            self.away.append(away)
        return found

    def wait_rolled_out(self, before: dict[str, str], *, untouched: bool = False) -> None:
        """Until every pod is of the newest revision and serves, and (unless `untouched`) each is another one."""

        def is_done() -> bool | None:
            found = self.look()
            if not found or found["UpToDate"]["status"] != "True" or found["Degraded"]["status"] != "False":
                return None
            now = self.uids()
            return True if untouched or not (now.items() & before.items()) else None

        self._wait("the roll-out to end", is_done)

    def wait_halted(self) -> str:
        def halted() -> str | None:
            found = self.conditions()
            stalled = found.get("Stalled", {})
            return str(stalled["message"]) if stalled.get("reason") == "RolloutHalted" else None

        return self._wait("Stalled/RolloutHalted", halted)

    def _wait(self, what: str, look: Any) -> Any:
        return wait_for(
            what,
            look,
            timeout_s=TIMEOUT_S,
            look_at="kubectl get bookiecluster -o yaml",
            detail=lambda: str(self.conditions().get("UpToDate", {}).get("message", "")),
            poll_s=1.0,
        )


@pytest.fixture
def fleet(stage: KubernetesStage) -> Iterator[Fleet]:
    """The demo's fleet, rolled out by the operator; as it was, afterwards."""
    kube_engine.docker("tag", kube_images.BOOKIE_IMAGE, NEXT_IMAGE)
    kube_load.load([NEXT_IMAGE])
    found = Fleet(stage)
    image = stage.resource()["spec"]["image"]
    found.edit(rollout={"strategy": "Automatic", "soakSeconds": 2})
    yield found
    found.edit(rollout={"strategy": "Automatic", "soakSeconds": 0}, image=image, config=None)
    found.wait_rolled_out({}, untouched=True)
    found.edit(rollout=None)


@pytest.fixture
def writers(stage: KubernetesStage, fleet: Fleet) -> Iterator[Oracle]:
    oracle = stage.start_workload()
    oracle.start()
    try:
        wait_for(
            "the first entries",
            lambda: True if oracle.acknowledged > 500 else None,
            timeout_s=120.0,
            look_at="workload",
        )
        yield oracle
    finally:
        oracle.close()
        stage.kubectl("delete", "pod", "workload", "--ignore-not-found", "--wait=false")


@pytest.fixture
def shell(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A person's shell, whose kubectl speaks of the fleet's namespace."""
    path = tmp_path_factory.mktemp("shell") / "config"
    path.write_text(kube_tools.kubectl("config", "view", "--raw", "--minify", "--flatten"))
    environment = {"KUBECONFIG": str(path)}
    words = f"kubectl config set-context --current --namespace={NAMESPACE}"
    pages_support.run(COMMANDS.format(path, CLUSTER) + words, timeout_s=60.0, environment=environment)
    return environment


def test_image_halt_recovery_and_settings_under_writers_lose_nothing(
    stage: KubernetesStage, fleet: Fleet, writers: Oracle, shell: dict[str, str]
) -> None:
    before = fleet.uids()
    page = pages_support.block("docs/OPERATOR.md", "Roll-out")
    pages_support.run(COMMANDS.format(shell["KUBECONFIG"], CLUSTER) + page.text, timeout_s=60.0, environment=shell)
    fleet.edit(rollout={"soakSeconds": 2})
    fleet.wait_rolled_out(before)
    images = {pod["spec"]["containers"][0]["image"] for pod in fleet.pods().values()}
    assert images == {NEXT_IMAGE}
    assert fleet.not_ready == [], "Ready stays True while a roll-out goes well"
    assert fleet.away == [], "one at a time"

    before = fleet.uids()
    fleet.edit(image=NO_IMAGE)
    told = fleet.wait_halted()
    broken = {name for name, uid in fleet.uids().items() if before[name] != uid}
    assert len(broken) == 1, "nobody but the first"
    assert NO_IMAGE in told or "ErrImage" in told or "ImagePull" in told, told
    fleet.edit(image=NEXT_IMAGE)
    fleet.not_ready.clear()
    fleet.wait_rolled_out({}, untouched=True)
    after = fleet.uids()
    assert {name for name in after if after[name] != before[name]} == broken, "the others run what the spec says again"

    before, settings = fleet.uids(), _settings(fleet)
    fleet.edit(config={"flushInterval": "7000"})
    fleet.wait_rolled_out(before)
    assert not settings & _settings(fleet)
    assert fleet.away == [], "one at a time"

    writers.stop_writing()
    verdict = proof.nothing_lost(writers.ask("verify", "--json"))
    assert verdict.holds, verdict.seen


def _settings(fleet: Fleet) -> set[str]:
    """Names of the ConfigMaps that pods read."""
    volumes = [volume for pod in fleet.pods().values() for volume in pod["spec"]["volumes"]]
    return {volume["configMap"]["name"] for volume in volumes if volume["name"] == "bookie-settings"}
