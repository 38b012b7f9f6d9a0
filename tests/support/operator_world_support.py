"""A Kubernetes and its bookies in a few dictionaries, for the operator's own driver: enough to watch it converge.

Not a fake API server: semantics of the real one are judged end to end. It keeps what the executor relies on: apply with
preconditions, controllers that fill in pods and claims, bookies that check their grants, and a clock.
"""

import hashlib
import pickle
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import operator_support as make
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.ports.admin import (
    OPERATOR_EPOCH_MAX,
    Contents,
    Member,
    MountProof,
    MountReport,
    RepairStatus,
    State,
    StorageReport,
    Verdict,
    VolumeReport,
)
from bookie.rpc.calls import GrantAnswer
from bookie.rpc.client import AdminCredentials
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.facts import Door
from bookie_operator.execute import Executor
from bookie_operator.gateways import facts
from bookie_operator.gateways.bookies import BookieUnreachable
from bookie_operator.gateways.endings import Endings
from bookie_operator.gateways.kube import KubeError, KubeForbidden, Manifest
from bookie_operator.identities import Identities
from bookie_operator.model import cluster as clusters
from bookie_operator.model import names, values
from bookie_operator.model.status import BookieClusterStatus, GrantRecord
from bookie_operator.plan.observation import Term
from bookie_operator.reconcile import Key, Reconciler
from bookie_operator.recorder import Recorder

KEY = Key("data", "ledgers")
CAPABILITIES = ("limbo", "regeneration")
BROKEN_IMAGE = "bookie:broken"  # its Jobs fail, and no kubelet can pull it
BAD_SETTING = "diskUsageThreshold=0.11"  # a bookie that reads this ends at once


SETTLING = 3  # passes until a loss shows


def as_it_is(manifest: Manifest) -> Manifest:
    return manifest


def nothing(_: str) -> None:
    return None


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
    claimed: Verdict | None = None
    grant_id: str = ""
    granted_by: str = ""
    step: int = 0
    is_reachable: bool = True
    settings: str = ""  # what it read when its container started
    flush_problem: str = ""  # why it cannot flush
    flush_ms: int = 0  # how long it takes

    @property
    def disk(self) -> "set[int]":
        """The entries that its volumes hold."""
        return self.world.disks.setdefault(self.bookie_id, set())

    def start(self) -> None:
        cookie = self.world.cookies.get(self.bookie_id)
        is_empty = Contents.EMPTY in self.volumes.values() or Contents.REGENERATING in self.volumes.values()
        if cookie is None:
            self.world.cookies[self.bookie_id] = [0, 1]
            self.volumes = dict.fromkeys(self.volumes, Contents.VALID)
            self.claimed, self.state = Verdict.BOOTSTRAP, State.SERVING
        elif is_empty:
            self.claimed, self.state = Verdict.LOST, State.WAITING_GRANT
        elif self.bookie_id in self.world.dataless:
            self.claimed, self.state = Verdict.UNCLEAN, State.REPAIRING  # its limbo outlives the process
        else:
            self.claimed, self.state = Verdict.HEALTHY, State.SERVING

    def tick(self) -> None:
        """One second of work after a grant: fence, stamp, repair, serve."""
        if self.state is State.FENCING:
            self.state = State.STAMPING
        elif self.state is State.STAMPING:
            self.world.cookies[self.bookie_id][0] += 1
            self.world.cookies[self.bookie_id][1] += 1
            self.world.lives[self.bookie_id] = self.grant_id
            self.volumes = dict.fromkeys(self.volumes, Contents.VALID)
            self.state = State.REPAIRING
        elif self.state is State.REPAIRING:
            self.step += 1
            if self.step >= 3 and self._has_copied():
                self.world.dataless.discard(self.bookie_id)
                self.state = State.SERVING

    def _has_copied(self) -> bool:
        """Phase two: every entry of ours from whoever serves it. What nobody serves is waited for."""
        serving = [one for one in self.world.bookies.values() if one.state.serves and one is not self]
        mine = {entry for entry, write_set in enumerate(self.world.entries) if self.bookie_id in write_set}
        self.disk.update(entry for entry in mine if any(entry in one.disk for one in serving))
        return mine <= self.disk

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
    boot_epochs: dict[str, int] = field(default_factory=dict)  # by bookie id, where a story is about them
    accepted: list[GrantRecord] = field(default_factory=list)
    entries: "list[tuple[str, ...]]" = field(default_factory=list)  # write set of each entry that was acknowledged
    disks: "dict[str, set[int]]" = field(default_factory=dict)  # bookie id -> entries on its volumes
    story: "list[str]" = field(default_factory=list)  # what happened, for whoever has to understand a failure
    overtaken: "set[str]" = field(default_factory=set)  # their next fresh look reads the cookie before there is one
    over_quota: str = ""  # a StatefulSet that can make no pods
    members_problem: str = ""  # why no bookie can read cookies and registrations
    lives: "dict[str, str]" = field(default_factory=dict)  # bookie id -> the grant that its life began with
    dataless: "set[str]" = field(default_factory=set)  # bookies whose disks went away, until they are copied again
    past_tolerance: list[GrantRecord] = field(default_factory=list)  # accepted while more were dataless than may be
    writes: list[str] = field(default_factory=list)
    contents: "dict[str, dict[str, Contents]]" = field(default_factory=dict)  # bookie id -> its volumes, while no pod
    serial: int = 0
    leases: int = 0
    step_ms: int = 1_000  # what passes between two passes
    mount: MountProof = MountProof.SHARED
    refuse_grants: str = ""
    forbidden: str = ""  # a kind that the operator has no right to
    invalid: str = ""  # a kind that the API server refuses
    has_lease: bool = True
    admit: Callable[[Manifest], Manifest] = as_it_is  # what admission makes of every child
    is_edited_while_read: bool = False  # somebody else changes the cluster in the middle of every pass
    pods: Endings = field(default_factory=Endings)  # what the operator's watch told it
    identities: dict[str, AdminCredentials] = field(default_factory=dict)  # what the present operator process can show
    epoch_seen: int = 0  # by bookies, before this story began
    on_stop: Callable[[str], None] = nothing  # told of each pod that the operator deletes, while it is still there
    no_deletion: KubeError | None = None  # how the API server refuses to delete a pod
    on_flush: Callable[[str], None] = nothing  # told of each pod whose bookie is asked to flush

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

    def _check(self, kind: str, *, is_read: bool = False) -> None:
        if kind == self.forbidden:
            raise KubeForbidden(kind, 403, "forbidden")
        if kind == self.invalid and not is_read:
            raise KubeError(kind, 422, "invalid")

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        self._check(kind, is_read=True)
        return _copy(self.objects.get((kind, name)))

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        self._check(kind, is_read=True)
        wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
        if self.is_edited_while_read:
            self.put(self.objects[(names.KIND, "ledgers")])
        return [
            _copy(one)
            for (its_kind, _), one in self.objects.items()
            if its_kind == kind
            and wanted.items() <= (one["metadata"].get("labels") or {}).items()
            and all(_field(one, *part.split("=", 1)) for part in fields.split(",") if part)
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
        if subresource:
            assert live is not None
            return self.put(live | {subresource: manifest[subresource]})
        return self.put(self.admit(_copy(manifest) if live is None else _merged(live, manifest)))

    async def create(self, manifest: Manifest) -> Manifest:
        if (manifest["kind"], manifest["metadata"]["name"]) in self.objects:
            raise KubeError("create", 409, "exists")
        return self.put(manifest)

    async def replace(self, manifest: Manifest) -> Manifest:
        return self.put(manifest)

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str) -> None:
        self._check(kind)
        live = self.objects.get((kind, name))
        if live is None:
            return
        metadata = live["metadata"]
        if (metadata["uid"], metadata["resourceVersion"]) != (uid, resource_version):
            raise KubeError(f"delete {kind} {name}", 409, "it is another one")
        if kind == "Pod" and self.no_deletion is not None:
            raise self.no_deletion
        self.writes.append(f"delete {kind}/{name}")
        if kind == "Pod":
            self.on_stop(name)
            self.kill(name)
        else:
            del self.objects[(kind, name)]

    # ---- controllers, kubelets ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """One second passes: controllers and bookies do their part."""
        self.now_ms += self.step_ms
        for (kind, _), one in list(self.objects.items()):
            if kind == "StatefulSet":
                self._run_stateful_set(one)
            if kind == "Job" and "status" not in one:
                one["status"] = {"conditions": [self._job_end(one)]}
        for bookie in self.bookies.values():
            bookie.tick()
        for pod in self.of_kind("Pod"):
            self._probe(pod)

    def _probe(self, pod: Manifest) -> None:
        """Its kubelet asks whether it serves, and says so in the pod."""
        is_serving = any(one.pod_uid == pod["metadata"]["uid"] and one.state.serves for one in self.bookies.values())
        status = "True" if is_serving else "False"
        (known,) = pod["status"].get("conditions") or [{"status": ""}]
        if known["status"] != status:
            ready = {"type": "Ready", "status": status, "lastTransitionTime": values.format_time(self.now_ms)}
            self.put(pod | {"status": pod["status"] | {"conditions": [ready]}})

    def _run_stateful_set(self, one: Manifest) -> None:
        revision = self._revise(one)
        if one["metadata"]["name"] == self.over_quota:
            return
        pool = one["metadata"]["labels"][names.LABEL_POOL]
        mine = f"{one['metadata']['name']}-"
        for kind, name in list(self.objects):
            ordinal = name.removeprefix(mine)
            if kind == "Pod" and name.startswith(mine) and int(ordinal) >= one["spec"]["replicas"]:
                self.kill(name)
        for ordinal in range(one["spec"]["replicas"]):
            name = f"{one['metadata']['name']}-{ordinal}"
            templates = [template["metadata"]["name"] for template in one["spec"]["volumeClaimTemplates"]]
            fresh = [
                volume for volume in templates if ("PersistentVolumeClaim", f"{volume}-{name}") not in self.objects
            ]
            for volume in fresh:
                self._provision(f"{volume}-{name}", pool)
            if ("Pod", name) not in self.objects:
                self._start_pod(
                    name, pool, names.bookie_id("data", "ledgers", pool, ordinal), templates, fresh, revision
                )

    def _job_end(self, job: Manifest) -> Manifest:
        image = job["spec"]["template"]["spec"]["containers"][0]["image"]
        kind = "Failed" if image == BROKEN_IMAGE else "Complete"
        return {"type": kind, "status": "True", "lastTransitionTime": values.format_time(self.now_ms)}

    def _revise(self, one: Manifest) -> Manifest:
        """The revision of a StatefulSet's template; of those that no pod runs, only the newest few stay."""
        template, owner = one["spec"]["template"], one["metadata"]["name"]
        name = f"{owner}-{hashlib.sha256(repr(template).encode()).hexdigest()[:8]}"
        one["status"] = {"updateRevision": name}
        if ("ControllerRevision", name) not in self.objects:
            metadata = {"name": name, "namespace": "data", "labels": template["metadata"]["labels"], "owner": owner}
            data = {"spec": {"template": template}}
            self.put({"kind": "ControllerRevision", "metadata": metadata, "data": data})
        living = {pod["metadata"]["labels"]["controller-revision-hash"] for pod in self.of_kind("Pod")} | {name}
        history = [
            revision["metadata"]["name"]
            for revision in self.of_kind("ControllerRevision")
            if revision["metadata"]["owner"] == owner and revision["metadata"]["name"] not in living
        ]
        for old in history[: -one["spec"]["revisionHistoryLimit"]]:
            del self.objects[("ControllerRevision", old)]
        return self.objects[("ControllerRevision", name)]

    def of_kind(self, kind: str) -> "list[Manifest]":
        return [one for (its_kind, _), one in self.objects.items() if its_kind == kind]

    def _provision(self, claim: str, pool: str) -> None:
        labels = {names.LABEL_CLUSTER: "ledgers", names.LABEL_POOL: pool}
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

    def _start_pod(
        self, name: str, pool: str, bookie_id: str, templates: "list[str]", fresh: "list[str]", revision: Manifest
    ) -> None:
        address = f"10.0.0.{self.serial + 1}"
        pod = self.put(
            {
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": "data",
                    "labels": {
                        names.LABEL_CLUSTER: "ledgers",
                        names.LABEL_POOL: pool,
                        "controller-revision-hash": revision["metadata"]["name"],
                    },
                    "annotations": revision["data"]["spec"]["template"]["metadata"].get("annotations", {}),
                },
                "spec": revision["data"]["spec"]["template"]["spec"] | {"nodeName": "node"},
                "status": {"phase": "Running", "podIP": address},
            }
        )
        container = next(one for one in pod["spec"]["containers"] if one["name"] == names.CONTAINER)
        (settings,) = facts.config_maps(pod["spec"])
        read = self.objects[("ConfigMap", settings)]["data"][names.SETTINGS_FILE]
        waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{container["image"]}"'}
        if BAD_SETTING in read:
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
        if container["image"] == BROKEN_IMAGE or BAD_SETTING in read:
            pod["status"]["containerStatuses"] = [{"state": {"waiting": waiting}}]
            return
        known = self.contents.get(bookie_id, {})
        contents = {volume: Contents.EMPTY if volume in fresh else known[volume] for volume in templates}
        bookie = FakeBookie(self, name, bookie_id, pod["metadata"]["uid"], contents)
        bookie.grant_id = self.lives.get(bookie_id, "")
        self.bookies[f"{address}:3184"] = bookie
        self.start_container(name)

    def make_older(self, pod: str) -> None:
        """The pod is of a release without TLS on the admin port."""
        spec, bookie = self.objects[("Pod", pod)]["spec"], self.bookie(pod)
        spec["volumes"] = [one for one in spec["volumes"] if one["name"] != names.ADMIN_VOLUME]
        self.bookies = {
            address.replace(":3184", ":3182") if one is bookie else address: one
            for address, one in self.bookies.items()
        }

    def start_container(self, pod: str) -> None:
        """The kubelet starts a pod's container: what it mounts is as it is now."""
        bookie, spec = self.bookie(pod), self.objects[("Pod", pod)]["spec"]
        (name,) = facts.config_maps(spec)
        bookie.settings = self.objects[("ConfigMap", name)]["data"][names.SETTINGS_FILE]
        bookie.start()

    def lose(self, pod: str, *, by_force: bool = False) -> None:
        """Somebody deletes a pod, its claims and its volumes."""
        self.delete_claims(pod)
        self.kill(pod, by_force=by_force)

    def delete_claims(self, pod: str) -> None:
        """Of a pod that runs or not; the disks go with them."""
        for key, one in list(self.objects.items()):
            if key[0] == "PersistentVolumeClaim" and key[1].endswith(f"-{pod}"):
                del self.objects[("PersistentVolume", one["spec"]["volumeName"])]
                del self.objects[key]
        bookie_id = "data.ledgers." + ".".join(pod.removeprefix("ledgers-").rsplit("-", 1))
        if bookie_id in self.cookies:
            self.disks.pop(bookie_id, None)
            self.dataless.add(bookie_id)

    def kill(self, pod: str, *, by_force: bool = False) -> None:
        """Somebody deletes a pod, and its kubelet says that it ended; by force: the object goes, and nobody says so."""
        one = self.objects.pop(("Pod", pod), None)
        if one is not None:
            if not by_force:
                ended = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}
                one = one | {"status": one["status"] | ended}
            self.pods.saw(one)
        for each in self.bookies.values():
            if each.name == pod:
                self.contents[each.bookie_id] = each.volumes
        self.bookies = {address: one for address, one in self.bookies.items() if one.name != pod}

    def edit(self, **spec_changes: Any) -> None:
        """Somebody applies another spec."""
        live = self.objects[(names.KIND, "ledgers")]
        live["spec"] |= spec_changes
        live["metadata"]["generation"] += 1
        self.put(live)

    def scale(self, stateful_set: str, replicas: int) -> None:
        """kubectl scale, past the operator."""
        self.objects[("StatefulSet", stateful_set)]["spec"]["replicas"] = replicas

    def spec(self) -> "dict[str, Any]":
        found: dict[str, Any] = self.objects[(names.KIND, "ledgers")]["spec"]
        return found

    def delete_and_apply(self, *, is_orphaning: bool = False, **spec_changes: Any) -> None:
        """The resource is deleted, and with it all that it owns (but for `is_orphaning`: --cascade=orphan); then
        applied again, with changes and a new uid."""
        old = self.objects[(names.KIND, "ledgers")]
        for (kind, name), one in list(self.objects.items()):
            if is_orphaning:
                one["metadata"].pop("ownerReferences", None)
            elif kind == "StatefulSet":
                for ordinal in range(one["spec"]["replicas"]):
                    self.kill(f"{name}-{ordinal}")
            if any(owner["uid"] == old["metadata"]["uid"] for owner in one["metadata"].get("ownerReferences") or ()):
                del self.objects[(kind, name)]
        metadata = {"name": "ledgers", "namespace": "data", "generation": 1, "uid": self._new("cluster")}
        self.put({key: old[key] for key in ("apiVersion", "kind")} | {"metadata": metadata, "spec": old["spec"]})
        self.objects[(names.KIND, "ledgers")]["spec"] |= spec_changes

    # ---- the oracle ----------------------------------------------------------------------------------------------

    def write(self, count: int, rng: random.Random) -> None:
        """`count` entries, each acknowledged by two bookies of its three, which have it durably."""
        serving = sorted(
            (one for one in self.bookies.values() if one.state in (State.SERVING, State.REPAIRING)),
            key=lambda one: one.bookie_id,
        )
        for _ in range(count if len(serving) >= 3 else 0):
            chosen = rng.sample(serving, 3)
            for one in chosen[:2]:
                one.disk.add(len(self.entries))
            self.entries.append(tuple(one.bookie_id for one in chosen))

    def lost_entries(self) -> "list[int]":
        """Acknowledged entries that no disk holds any more."""
        kept = set[int]().union(*self.disks.values())
        return [entry for entry in range(len(self.entries)) if entry not in kept]

    def uncounted(self) -> "list[str]":
        """Bookies that may hold data and that the status, once it had a look, does not name."""
        status = self.status()
        told = {one.bookie_id for one in (*status.bookies, *status.orphans)}
        is_new = status.observed_generation != self.objects[(names.KIND, "ledgers")]["metadata"]["generation"]
        return [] if is_new else sorted(set(self.cookies) - told)

    def says_all_is_well(self) -> bool:
        """What a careful administrator waits for before he takes a disk away."""
        found = {one.type: one.status for one in self.status().conditions}
        wanted = {"Ready": "True", "Degraded": "False", "DataAtRisk": "False", "StorageHealthy": "True"}
        return wanted.items() <= found.items()

    def bookie(self, name: str) -> FakeBookie:
        return next(one for one in self.bookies.values() if one.name == name)

    # ---- the admin ports -----------------------------------------------------------------------------------------

    def use(self, uid: str, identity: AdminCredentials) -> None:
        self.identities[uid] = identity

    def identity(self, uid: str) -> AdminCredentials | None:
        return self.identities.get(uid)

    def _at(self, door: Door) -> FakeBookie:
        bookie = self.bookies.get(door.address)
        if bookie is None or not bookie.is_reachable or (door.uid or "plain") not in (*self.identities, "plain"):
            raise BookieUnreachable(f"admin port {door.address}: UNAVAILABLE")
        return bookie

    async def report(self, door: Door, *, fresh: bool) -> StorageReport:
        bookie = self._at(door)
        version, incarnation = self.cookies.get(bookie.bookie_id, [-1, 0])
        if fresh and bookie.bookie_id in self.overtaken:
            self.overtaken.remove(bookie.bookie_id)
            version, incarnation = -1, 0
        return StorageReport(
            bookie_id=BookieId(bookie.bookie_id),
            pod_uid=bookie.pod_uid,
            state=bookie.state,
            verdict=bookie.claimed,
            reason="",
            metadata_reachable=True,
            instance_id="instance",
            cookie_present=version >= 0,
            cookie_version=version,
            incarnation=Incarnation(incarnation),
            boot_epoch=BootEpoch(self.boot_epochs.get(bookie.bookie_id, 1)),
            ledgers_naming_me=0,
            volumes=tuple(self._volume(bookie, volume, incarnation) for volume in bookie.volumes),
            evidence_hash=bookie.evidence,
            capabilities=CAPABILITIES,
            operator_epoch_seen=max((grant.epoch for grant in self.accepted), default=self.epoch_seen),
            grant_id=bookie.grant_id,
            granted_by=bookie.granted_by,
            read_only=bookie.state is State.READ_ONLY,
            garbage_held_ledgers=0,
        )

    def _volume(self, bookie: FakeBookie, volume: str, incarnation: int) -> VolumeReport:
        contents = bookie.volumes[volume]
        sentinel = make.sentinel(bookie.bookie_id, incarnation) if contents is Contents.VALID else None
        return VolumeReport(volume, volume, "", MountReport(self.mount, fsid="fs"), contents, sentinel)

    async def members(self, door: Door) -> tuple[Member, ...]:
        self._at(door)
        if self.members_problem:
            raise BookieUnreachable(self.members_problem)
        serving = {one.bookie_id for one in self.bookies.values() if one.state.serves}
        writable = {one.bookie_id for one in self.bookies.values() if one.state in (State.SERVING, State.REPAIRING)}
        return tuple(
            Member(one, one in self.cookies, one in serving, one in writable)
            for one in sorted({*self.cookies, *serving})
        )

    async def repair(self, door: Door) -> RepairStatus:
        bookie = self._at(door)
        is_done = bookie.state is State.SERVING
        return RepairStatus(
            phase="done" if is_done else "two", done=is_done, ledgers_done=bookie.step, ledgers_pending=1
        )

    async def grant(self, door: Door, grant: GrantRecord, ttl_ms: int) -> GrantAnswer:
        bookie = self._at(door)
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
        assert max((one.epoch for one in self.accepted), default=0) <= grant.epoch <= OPERATOR_EPOCH_MAX
        if grant.epoch < self.epoch_seen:
            return GrantAnswer(False, "old_epoch", f"{self.epoch_seen} was seen")
        bookie.grant_id, bookie.state = grant.id, State.FENCING
        bookie.granted_by = f"certificate: {grant.issued_by}"
        self.accepted.append(grant)
        if len(self.dataless) > 1:
            self.past_tolerance.append(grant)
        return GrantAnswer(True)

    async def prepare_shutdown(self, door: Door) -> tuple[bool, str]:
        bookie = self._at(door)
        self.writes.append(f"flush/{bookie.name}")
        turn = self.status().rollout
        assert turn is not None, "nobody flushes whose turn is not stored"
        assert turn.step is not None, "nobody flushes whose turn is not stored"
        assert turn.step.pod_uid == bookie.pod_uid, "nobody flushes whose turn is not stored"
        assert bookie.state in (State.SERVING, State.READ_ONLY), bookie.state
        bookie.state = State.READ_ONLY
        self.now_ms += bookie.flush_ms
        self.on_flush(bookie.name)
        return not bookie.flush_problem, bookie.flush_problem or "flushed"

    async def resume(self, door: Door) -> None:
        bookie = self._at(door)
        self.writes.append(f"resume/{bookie.name}")
        if bookie.state is State.READ_ONLY:
            bookie.state = State.SERVING

    # ---- the operator --------------------------------------------------------------------------------------------

    def status(self) -> BookieClusterStatus:
        return clusters.parse_status(self.objects[(names.KIND, "ledgers")].get("status"))

    def events(self) -> "list[str]":
        return [one["reason"] for (kind, _), one in self.objects.items() if kind == "Event"]

    def note(self, reason: str) -> str:
        """The text of the one event of this kind."""
        (event,) = [one for (kind, _), one in self.objects.items() if kind == "Event" and one["reason"] == reason]
        return str(event["note"])

    def certifier(self, store: Callable[[Manifest, str], Awaitable[None]], namespace: str = "system") -> Identities:
        token = random.Random(self.leases).randbytes
        return Identities(self, store, self, lambda: self.now_ms, token, namespace=namespace, process="operator")

    def operator(self, crash: CrashPoint | None = None, *, has_watched: bool = True) -> Reconciler:
        """A new operator process that has just taken the lease; it has seen what became of pods, or begins to look."""
        self.leases += 1
        self.identities = {}
        if not has_watched:
            self.pods = Endings()
        for pod in self.of_kind("Pod"):
            self.pods.saw(pod)
        term = Term(f"operator-{self.leases}", self.leases)
        executor = Executor(
            self,
            self,
            Recorder(self, "operator"),
            crash or CrashPoint(0, ""),
            may_act=lambda: self.has_lease,
            loop_s=lambda: self.now_ms / 1_000,
        )

        return Reconciler(
            self,
            self,
            executor,
            lambda: term,
            lambda: self.now_ms,
            self.pods,
            self.certifier(executor.store),
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
                operator = self.operator(crash, has_watched=False)
            self.settle()
        return crashes

    def is_quiet(self) -> bool:
        status = self.status()
        ready = status.condition("Ready")
        return ready is not None and ready.status == "True" and all(one.state == "Serving" for one in status.bookies)


def _field(manifest: Manifest, path: str, wanted: str) -> bool:
    found: Any = manifest
    for name in path.split("."):
        found = (found or {}).get(name)
    return bool(found == wanted)


def clone(world: World) -> World:
    return pickle.loads(pickle.dumps(world))  # type: ignore[no-any-return]


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
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": values.format_time(out.now_ms)}
    out.put({"kind": "Node", "metadata": {"name": "node"}, "spec": {}, "status": {"conditions": [ready]}})
    return out
