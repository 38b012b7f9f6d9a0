"""A Kubernetes and its bookies in a few dictionaries, for the operator's own driver: enough to watch it converge.

Not a fake API server: semantics of the real one are judged end to end. It keeps what the executor relies on: apply with
preconditions, controllers that fill in pods and claims, bookies that check their grants, and a clock.
"""

import hashlib
import pickle
from dataclasses import dataclass, field
from typing import Any

import operator_support as make
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.facts import (
    Claimed,
    Contents,
    Mount,
    RepairFacts,
    Report,
    SentinelFacts,
    State,
    VolumeReport,
)
from bookie_operator.execute import Executor
from bookie_operator.gateways.bookies import BookieUnreachable, GrantAnswer
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.model import cluster as clusters
from bookie_operator.model import names, values
from bookie_operator.model.status import BookieClusterStatus, Grant
from bookie_operator.plan.observation import Leadership
from bookie_operator.reconcile import Key, Reconciler
from bookie_operator.recorder import Recorder

KEY = Key("data", "ledgers")
CAPABILITIES = ("limbo", "regeneration")


SETTLING = 3  # passes until a loss shows


class Crashed(Exception):
    """The operator process died here."""


@dataclass
class FakeBookie:
    """One pod's process: waits when its volumes are empty under a cookie, else serves."""

    world: "World"
    name: str
    bookie_id: str
    pod_uid: str
    volumes: dict[str, Contents]
    state: State = State.STARTING
    claimed: Claimed = Claimed.VERDICT_UNSPECIFIED
    grant_id: str = ""
    step: int = 0
    is_reachable: bool = True

    def start(self) -> None:
        cookie = self.world.cookies.get(self.bookie_id)
        is_empty = Contents.EMPTY in self.volumes.values()
        if cookie is None:
            self.world.cookies[self.bookie_id] = [0, 1]
            self.volumes = dict.fromkeys(self.volumes, Contents.VALID)
            self.claimed, self.state = Claimed.BOOTSTRAP, State.SERVING
        elif is_empty:
            self.claimed, self.state = Claimed.LOST, State.WAITING_GRANT
        else:
            self.claimed, self.state = Claimed.HEALTHY, State.SERVING

    def tick(self) -> None:
        """One second of work after a grant: fence, stamp, repair, serve."""
        if self.state is State.FENCING:
            self.state = State.STAMPING
        elif self.state is State.STAMPING:
            self.world.cookies[self.bookie_id][0] += 1
            self.world.cookies[self.bookie_id][1] += 1
            self.volumes = dict.fromkeys(self.volumes, Contents.VALID)
            self.state = State.REPAIRING
        elif self.state is State.REPAIRING:
            self.step += 1
            if self.step == 3:
                self.state = State.SERVING

    @property
    def evidence(self) -> str:
        text = f"{self.pod_uid} {self.world.cookies.get(self.bookie_id)} {sorted(self.volumes.items())}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class World:
    """Everything outside the operator. `writes` lists what was written, in order."""

    now_ms: int = make.NOW_MS
    objects: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    bookies: dict[str, FakeBookie] = field(default_factory=dict)  # by address
    cookies: dict[str, list[int]] = field(default_factory=dict)  # bookie id -> [version, incarnation]
    accepted: list[Grant] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    serial: int = 0
    leases: int = 0
    mount: Mount = Mount.SHARED
    refuse_grants: str = ""
    forbidden: str = ""  # a kind that the operator has no right to
    invalid: str = ""  # a kind that the API server refuses
    has_lease: bool = True
    is_edited_while_read: bool = False  # somebody else changes the cluster in the middle of every pass
    epoch_seen: int = 0  # by bookies, before this story began

    # ---- the API server ------------------------------------------------------------------------------------------

    def _new(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}-{self.serial}"

    def put(self, manifest: Manifest) -> Manifest:
        stored = _copy(manifest)
        metadata = stored["metadata"]
        metadata.setdefault("uid", self._new("uid"))
        metadata.setdefault("creationTimestamp", values.format_time(self.now_ms))
        metadata["resourceVersion"] = self._new("rv")
        self.objects[(stored["kind"], metadata["name"])] = stored
        return stored

    def _check(self, kind: str) -> None:
        if kind == self.forbidden:
            raise KubeError(kind, 403, "forbidden")
        if kind == self.invalid:
            raise KubeError(kind, 422, "invalid")

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        self._check(kind)
        return _copy(self.objects.get((kind, name)))

    async def list(self, kind: str, namespace: str, selector: str = "") -> list[Manifest]:
        wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
        if self.is_edited_while_read:
            self.put(self.objects[(names.KIND, "ledgers")])
        return [
            _copy(one)
            for (its_kind, _), one in self.objects.items()
            if its_kind == kind and wanted.items() <= (one["metadata"].get("labels") or {}).items()
        ]

    async def apply(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        kind, metadata = manifest["kind"], manifest["metadata"]
        self._check(kind)
        live = self.objects.get((kind, metadata["name"]))
        for precondition in ("uid", "resourceVersion"):
            wanted = metadata.get(precondition)
            if wanted and (live is None or live["metadata"][precondition] != wanted):
                raise KubeError(f"apply {kind} {metadata['name']}", 409, f"{precondition} is another one")
        self.writes.append(f"{kind}/{metadata['name']}{'/' + subresource if subresource else ''}")
        if live is None:
            return self.put(manifest)
        if subresource:
            return self.put(live | {subresource: manifest[subresource]})
        return self.put(_merged(live, manifest))

    async def create(self, manifest: Manifest) -> Manifest:
        if (manifest["kind"], manifest["metadata"]["name"]) in self.objects:
            raise KubeError("create", 409, "exists")
        return self.put(manifest)

    async def replace(self, manifest: Manifest) -> Manifest:
        return self.put(manifest)

    # ---- controllers, kubelets ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """One second passes: controllers and bookies do their part."""
        self.now_ms += 1_000
        for (kind, _), one in list(self.objects.items()):
            if kind == "StatefulSet":
                self._run_stateful_set(one)
            if kind == "Job":
                one["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        for bookie in self.bookies.values():
            bookie.tick()

    def _run_stateful_set(self, one: Manifest) -> None:
        one["status"] = {"updateRevision": "rev-1"}
        pool = one["metadata"]["labels"][names.LABEL_POOL]
        for ordinal in range(one["spec"]["replicas"]):
            name = f"{one['metadata']['name']}-{ordinal}"
            templates = [template["metadata"]["name"] for template in one["spec"]["volumeClaimTemplates"]]
            fresh = [
                volume for volume in templates if ("PersistentVolumeClaim", f"{volume}-{name}") not in self.objects
            ]
            for volume in fresh:
                self._provision(f"{volume}-{name}")
            if ("Pod", name) not in self.objects:
                self._start_pod(name, names.bookie_id("data", "ledgers", pool, ordinal), templates, fresh)

    def _provision(self, claim: str) -> None:
        labels = {names.LABEL_CLUSTER: "ledgers"}
        volume = self.put({"kind": "PersistentVolume", "metadata": {"name": self._new("pv")}, "spec": {}})
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
        self.put(
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim, "namespace": "data", "labels": labels},
                "spec": {"volumeName": volume["metadata"]["name"]},
                "status": {"phase": "Bound"},
            }
        )

    def _start_pod(self, name: str, bookie_id: str, templates: "list[str]", fresh: "list[str]") -> None:
        address = f"10.0.0.{self.serial + 1}"
        pod = self.put(
            {
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": "data",
                    "labels": {names.LABEL_CLUSTER: "ledgers", "controller-revision-hash": "rev-1"},
                },
                "spec": {"nodeName": "node"},
                "status": {"phase": "Running", "podIP": address},
            }
        )
        contents = {volume: Contents.EMPTY if volume in fresh else Contents.VALID for volume in templates}
        bookie = FakeBookie(self, name, bookie_id, pod["metadata"]["uid"], contents)
        bookie.start()
        self.bookies[f"{address}:3182"] = bookie

    def lose(self, pod: str) -> None:
        """Somebody deletes a pod, its claims and its volumes."""
        for key, one in list(self.objects.items()):
            if key[0] == "PersistentVolumeClaim" and key[1].endswith(f"-{pod}"):
                del self.objects[("PersistentVolume", one["spec"]["volumeName"])]
                del self.objects[key]
        self.kill(pod)

    def kill(self, pod: str) -> None:
        del self.objects[("Pod", pod)]
        self.bookies = {address: one for address, one in self.bookies.items() if one.name != pod}

    def bookie(self, name: str) -> FakeBookie:
        return next(one for one in self.bookies.values() if one.name == name)

    # ---- the admin ports -----------------------------------------------------------------------------------------

    def _at(self, address: str) -> FakeBookie:
        bookie = self.bookies.get(address)
        if bookie is None or not bookie.is_reachable:
            raise BookieUnreachable(f"admin port {address}: UNAVAILABLE")
        return bookie

    async def report(self, address: str, *, fresh: bool) -> Report:
        bookie = self._at(address)
        version, incarnation = self.cookies.get(bookie.bookie_id, [-1, 0])
        return Report(
            bookie_id=bookie.bookie_id,
            pod_uid=bookie.pod_uid,
            state=bookie.state,
            claimed=bookie.claimed,
            instance_id="instance",
            cookie_present=version >= 0,
            cookie_version=version,
            incarnation=incarnation,
            ledgers_naming_me=0,
            volumes=tuple(self._volume(bookie, volume, incarnation) for volume in bookie.volumes),
            evidence_hash=bookie.evidence,
            capabilities=CAPABILITIES,
            operator_epoch_seen=max((grant.epoch for grant in self.accepted), default=self.epoch_seen),
            grant_id=bookie.grant_id,
        )

    def _volume(self, bookie: FakeBookie, volume: str, incarnation: int) -> VolumeReport:
        contents = bookie.volumes[volume]
        sentinel = SentinelFacts(bookie.bookie_id, "instance", incarnation) if contents is Contents.VALID else None
        return VolumeReport(volume, volume, self.mount, contents, "fs", sentinel=sentinel)

    async def repair(self, address: str) -> RepairFacts:
        bookie = self._at(address)
        is_done = bookie.state is State.SERVING
        return RepairFacts(
            phase="done" if is_done else "two", done=is_done, ledgers_done=bookie.step, ledgers_pending=1
        )

    async def grant(self, address: str, grant: Grant, ttl_ms: int) -> GrantAnswer:
        bookie = self._at(address)
        self.writes.append(f"grant/{bookie.name}")
        if self.refuse_grants:
            return GrantAnswer(False, self.refuse_grants, "as the test wants it")
        if bookie.grant_id == grant.id:
            return GrantAnswer(True)
        version, incarnation = self.cookies[bookie.bookie_id]
        stored = self.status().bookie(bookie.name)
        assert stored is not None, "no grant before its record is stored"
        assert stored.grant == grant, "no grant before its record is stored"
        assert bookie.state is State.WAITING_GRANT, "a grant for a bookie that waits for none"
        assert (grant.pod_uid, grant.report_evidence) == (bookie.pod_uid, bookie.evidence)
        assert (grant.cookie_version, grant.new_incarnation) == (version, incarnation + 1)
        assert grant.epoch >= max((one.epoch for one in self.accepted), default=0)
        bookie.grant_id, bookie.state = grant.id, State.FENCING
        self.accepted.append(grant)
        return GrantAnswer(True)

    # ---- the operator --------------------------------------------------------------------------------------------

    def status(self) -> BookieClusterStatus:
        return clusters.parse_status(self.objects[(names.KIND, "ledgers")].get("status"))

    def events(self) -> "list[str]":
        return [one["reason"] for (kind, _), one in self.objects.items() if kind == "Event"]

    def operator(self, crash: CrashPoint | None = None) -> Reconciler:
        """A new operator process that has just taken the lease."""
        self.leases += 1
        identity, epochs = f"operator-{self.leases}", [self.leases]
        executor = Executor(
            self, self, Recorder(self, "operator"), crash or CrashPoint(0, ""), may_act=lambda: self.has_lease
        )

        async def raise_epoch(above: int) -> None:
            epochs.append(above + 1)

        return Reconciler(
            self,
            self,
            executor,
            lambda: Leadership(identity, epochs[-1]),
            lambda: self.now_ms,
            raise_epoch,
            image=make.IMAGE,
            version="test",
        )

    async def run(
        self, operator: Reconciler, *, passes: int, crash: CrashPoint | None = None, until_quiet: bool = False
    ) -> int:
        """Pass after pass, a second apart, with a new operator after each crash; how many crashes there were."""
        crashes = 0
        for number in range(passes):
            if until_quiet and number > SETTLING and self.is_quiet():
                break
            try:
                await operator.reconcile(KEY)
            except Crashed:
                crashes += 1
                operator = self.operator(crash)
            self.settle()
        return crashes

    def is_quiet(self) -> bool:
        status = self.status()
        ready = status.condition("Ready")
        return ready is not None and ready.status == "True" and all(one.state == "Serving" for one in status.bookies)


def _copy(value: Any) -> Any:
    """A deep copy, several times faster than copy.deepcopy."""
    return pickle.loads(pickle.dumps(value))


def _merged(live: Any, desired: Any) -> Any:
    if isinstance(live, dict) and isinstance(desired, dict):
        return live | {key: _merged(live.get(key), value) for key, value in desired.items()}
    return _copy(desired)


def world(**spec_changes: Any) -> World:
    """A cluster resource that nobody has looked at yet, on shared disks."""
    out = World()
    manifest = make.manifest(**spec_changes)
    for role in ("journal", "ledgers", "index"):
        for volume in manifest["spec"]["storage"][role]["volumes"]:
            volume["allowSharedFilesystem"] = True
    out.put(manifest)
    return out
