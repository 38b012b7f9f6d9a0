"""A Kubernetes and its bookies in a few dictionaries, for the operator's own driver: enough to watch it converge.

Not a fake API server: semantics of the real one are judged end to end. It keeps what the executor relies on: apply with
preconditions, controllers that fill in pods and claims, bookies that check their grants, and a clock.
"""

import asyncio
import hashlib
import json
import pickle
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import operator_support as make
from bookie.base.ids import BookieId, BootEpoch, Incarnation, LedgerId
from bookie.ports.admin import (
    OPERATOR_EPOCH_MAX,
    Aside,
    BlockedLedger,
    Contents,
    DiskFormat,
    DrainStatus,
    FillStatus,
    HeldBack,
    MarkedLedgers,
    Member,
    MountProof,
    MountReport,
    OpenLedgers,
    References,
    RepairStatus,
    State,
    StopTurn,
    StorageReport,
    Verdict,
    VolumeReport,
)
from bookie.rpc.calls import ForgetAnswer, GrantAnswer, OrderAnswer
from bookie.rpc.client import AdminCredentials
from bookie_operator import watch
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.bookie import ROLLBACK
from bookie_operator.evidence.facts import Door
from bookie_operator.execute.executor import Executor
from bookie_operator.gateways import facts
from bookie_operator.gateways.bookies import Bookies, BookieUnreachable
from bookie_operator.gateways.endings import Endings
from bookie_operator.gateways.kube import RESOURCES, Kube, KubeError, KubeForbidden, Manifest
from bookie_operator.identities import Identities, Wallet
from bookie_operator.model import cluster as clusters
from bookie_operator.model import names, values
from bookie_operator.model import operation as operations
from bookie_operator.model.operation import OperationStatus
from bookie_operator.model.status import BookieClusterStatus, Departure, GrantRecord, HibernationState
from bookie_operator.plan.observation import Term
from bookie_operator.reconcile import Key, Reconciler
from bookie_operator.recorder import Recorder
from bookie_operator.rests import FULL_LOOK_MS, FleetKey, GlancedNodes, Rest, Rests

KEY = Key("data", "ledgers")
CAPABILITIES = ("limbo", "regeneration", "turn", "stale-volume", "aside", "cookie", "marks", "ledger-loss")
BROKEN_IMAGE = "bookie:broken"  # its Jobs fail, and no kubelet can pull it
BAD_SETTING = "diskUsageThreshold=0.11"  # a bookie that reads this ends at once


SETTLING = 3  # passes until a loss shows
# Of an API server: kinds that count changes of their spec, and the sizes that it and its etcd take.
GENERATED = (names.KIND, names.OPERATION_KIND, "StatefulSet", "Deployment", "Job", "PodDisruptionBudget")
ANNOTATIONS_BYTES_MAX, DATA_BYTES_MAX, OBJECT_BYTES_MAX = 256 * 1024, 1024 * 1024, 1536 * 1024


POSTED = "(Update)"  # to an API server, who posts an object is another manager of its fields than who applies it


def as_it_is(manifest: Manifest) -> Manifest:
    return manifest


def nothing(*_: str) -> None:
    return None


def no_members() -> tuple[Member, ...]:
    return ()


class Ports(Bookies, Wallet, Protocol):
    """The admin ports of all bookies, as one operator process reaches them."""


class Crashed(Exception):
    """The operator process died here."""


class DeathAtEveryThird(CrashPoint):
    """Every third write is the last of its operator, whoever it is; the first that dies has made `first` of them; 0:
    none dies. Every second operator makes one write more: one pass stores its epoch, the record and the status before
    it gives an order, and an operator that never gets so far gives none."""

    def __init__(self, first: int) -> None:
        super().__init__(0, "")
        self._left, self._next = first, 3

    def after_write(self, what: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._left, self._next = self._next, 7 - self._next
            raise Crashed


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
    failed: "tuple[str, ...]" = ()  # directories that take no writes: no flush ends well
    is_draining: bool = False
    drained_by: int = 0  # epoch of the operator that began it; 0: a person
    is_empty: bool = False
    drain_order: tuple[bool, int] = (False, 0)  # recovers open ledgers, bytes a second
    moved: int = 0  # entries, since the drain began
    turn_end_ms: int = 0  # while an operator is about to stop it
    is_sealed: bool = False
    fill: FillStatus | None = None  # None: a release that says nothing of holes
    live: dict[str, str] = field(default_factory=dict)  # what it takes as it runs; none: an older release
    formats: "tuple[DiskFormat, ...]" = ()  # of its release; (): an older one

    @property
    def disk(self) -> "set[int]":
        """The entries that its volumes hold."""
        return self.world.disks.setdefault(self.bookie_id, set())

    def start(self) -> None:
        if self.name in self.world.cut_off:
            self.is_reachable = False
            return
        cookie = self.world.cookies.get(self.bookie_id)
        if self.is_aside:
            self.claimed, self.state = Verdict.SET_ASIDE, State.HELD
            return
        if cookie is not None and (problem := self._find_added()):
            self.claimed, self.state = Verdict.UNKNOWN_CONTENT, State.HELD
            self.world.refused.append(f"{self.name}: {problem}")
            return
        if Contents.UNREADABLE in self.volumes.values():
            self.claimed, self.state = Verdict.UNREADABLE, State.HELD
            return
        is_empty = Contents.EMPTY in self.volumes.values() or Contents.REGENERATING in self.volumes.values()
        if cookie is None and Contents.VALID in self.volumes.values():
            self.claimed, self.state = Verdict.COOKIE_MISSING, State.HELD
        elif cookie is None:
            self.world.cookies[self.bookie_id] = [0, self.world.last_lives.pop(self.bookie_id, 0) + 1]
            self._take_all()
            self.claimed, self.state = Verdict.BOOTSTRAP, State.SERVING
        elif Contents.STALE in self.volumes.values():
            self.claimed, self.state = Verdict.STALE, State.HELD
        elif is_empty:
            self.claimed, self.state = Verdict.LOST, State.WAITING_GRANT
        elif Contents.ADDED in self.volumes.values():
            self.claimed, self.state = Verdict.HEALTHY, State.STARTING
        elif self.bookie_id in self.world.dataless:
            self.claimed, self.state = Verdict.UNCLEAN, State.REPAIRING  # its limbo outlives the process
        else:
            self.claimed, self.state = Verdict.HEALTHY, State.SERVING
        if self.world.fill_s:
            self.fill = FillStatus(is_waiting=True)  # by itself, after each start

    def _find_added(self) -> str:
        """Call the empty volumes added that its settings have behind those of its cookie; why it refuses them, or
        ""."""
        had, has = self.world.directories.get(self.bookie_id), _directories(self.settings)
        if had is None or had == has:
            return ""
        if any(new[: len(old)] != old for old, new in zip(had, has, strict=True)):
            return f"its cookie has {had}, its settings have {has}"
        if "allowStorageExpansion=true" not in self.settings.splitlines():
            return f"its settings have {has} and do not allow more than {had}"
        more = [volume for old, new in zip(had, has, strict=True) for volume in new[len(old) :]]
        self.volumes |= {one: Contents.ADDED for one in more if self.volumes[one] is Contents.EMPTY}
        return ""

    def _take_all(self) -> None:
        """All its volumes are its own from now on: it says so to the metadata store, and in its cookie."""
        self.volumes = dict.fromkeys(self.volumes, Contents.VALID)
        self.world.directories[self.bookie_id] = _directories(self.settings)

    @property
    def is_aside(self) -> bool:
        order = self.world.asides.get(self.bookie_id)
        return order is not None and order.is_aside

    @property
    def in_service(self) -> State:
        """How it serves when its turn, or its repair, has ended: a drain may have begun meanwhile."""
        return State.READ_ONLY if self.is_draining else State.SERVING

    def end_turn(self) -> None:
        """It takes writes as before its turn."""
        if self.turn_end_ms:
            self.turn_end_ms, self.is_sealed = 0, False
            self.state = self.in_service if self.state is State.READ_ONLY else self.state

    def tick(self) -> None:
        """One second of work after a grant: fence, stamp, repair, serve."""
        if self.turn_end_ms and self.world.now_ms >= self.turn_end_ms:
            self.end_turn()
        if self.state in (State.HELD, State.WAITING_GRANT) and self.is_aside is not (self.claimed is Verdict.SET_ASIDE):
            self.start()
        if self.fill is not None and self.state.serves:
            self.fill = self._filled(self.fill)
        if self.state is State.STARTING and self.claimed is Verdict.HEALTHY:
            self._take_all()
            self.state = State.SERVING
        elif self.state is State.FENCING:
            self.state = State.STAMPING
        elif self.state is State.STAMPING:
            self.world.cookies[self.bookie_id][0] += 1
            self.world.cookies[self.bookie_id][1] += 1
            self.world.lives[self.bookie_id] = self.grant_id
            self._take_all()
            self.state = State.REPAIRING
        elif self.state is State.REPAIRING:
            self.step += 1
            if self.step >= 3 and self._has_copied():
                self.world.dataless.discard(self.bookie_id)
                self.state = self.in_service

    def _filled(self, fill: FillStatus) -> FillStatus:
        """One second of a fill, which takes `World.fill_s` of them."""
        if fill.is_waiting:
            return FillStatus(is_running=True, began_ms_ago=0)
        if not fill.is_running:
            return replace(fill, began_ms_ago=fill.began_ms_ago + 1_000, ended_ms_ago=fill.ended_ms_ago + 1_000)
        if fill.began_ms_ago < self.world.fill_s * 1_000:
            return replace(fill, began_ms_ago=fill.began_ms_ago + 1_000)
        problem = self.world.fill_problems.get(self.name, "")
        blocked = (BlockedLedger(LedgerId(7), problem),) if problem else ()
        if not problem and not self._has_copied():
            blocked = (BlockedLedger(LedgerId(7), "nobody who serves has it"),)
        return FillStatus(
            began_ms_ago=fill.began_ms_ago,
            ended_ms_ago=0,
            blocked=blocked,
            blocked_count=len(blocked),
            is_whole=not blocked,
        )

    def drain(self) -> None:
        """One second of moving entries away: to a bookie that takes writes and has no copy, from whoever has one."""
        if not self.is_draining or self.state is not State.READ_ONLY:
            return
        mine = self.world.naming(self.bookie_id)
        self.is_empty = not mine and (self.drain_order[0] or not self.world.abandoned)
        targets = [one for one in self.world.bookies.values() if one.state in (State.SERVING, State.REPAIRING)]
        for entry in mine[: self.world.drain_rate]:
            write_set = self.world.entries[entry]
            found = [one for one in targets if one.bookie_id not in write_set]
            if found and any(entry in disk for disk in self.world.disks.values()):
                found[entry % len(found)].disk.add(entry)
                new = tuple(found[entry % len(found)].bookie_id if one == self.bookie_id else one for one in write_set)
                self.world.entries[entry] = new
                self.moved += 1

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
    granted_for_ms: list[int] = field(default_factory=list)  # how long each of them lives
    entries: "list[tuple[str, ...]]" = field(default_factory=list)  # write set of each entry that was acknowledged
    disks: "dict[str, set[int]]" = field(default_factory=dict)  # bookie id -> entries on its volumes
    story: "list[str]" = field(default_factory=list)  # what happened, for whoever has to understand a failure
    overtaken: "set[str]" = field(default_factory=set)  # their next fresh look reads the cookie before there is one
    over_quota: str = ""  # a StatefulSet that can make no pods
    members_problem: str = ""  # why no bookie can read cookies and registrations
    last_lives: "dict[str, int]" = field(default_factory=dict)  # bookie id -> its last incarnation, without a cookie
    asides: "dict[str, Aside]" = field(default_factory=dict)  # bookie id -> the last order about its service
    lives: "dict[str, str]" = field(default_factory=dict)  # bookie id -> the grant that its life began with
    dataless: "set[str]" = field(default_factory=set)  # bookies whose disks went away, until they are copied again
    past_tolerance: list[GrantRecord] = field(default_factory=list)  # accepted while more were dataless than may be
    writes: list[str] = field(default_factory=list)
    managed: "dict[tuple[str, str], Manifest]" = field(default_factory=dict)  # (uid, manager) -> what it applied last
    directories: "dict[str, tuple[list[str], ...]]" = field(default_factory=dict)  # by bookie id: of its cookie
    refused: "list[str]" = field(default_factory=list)  # starts with directories that a cookie does not allow
    pod_claims: "dict[str, dict[str, Manifest]]" = field(default_factory=dict)  # by pod: what its claims are made of
    no_capacity: "set[str]" = field(default_factory=set)  # volumes whose claims get no disk
    contents: "dict[str, dict[str, Contents]]" = field(default_factory=dict)  # bookie id -> its volumes, while no pod
    claim_uids: "dict[str, dict[str, str]]" = field(default_factory=dict)  # the same: on which claims they are
    serial: int = 0
    leases: int = 0
    step_ms: int = 1_000  # what passes between two passes
    ahead_ms: int = 0  # how far the operator's clock is ahead of all others
    says_time: bool = True  # the API server's answers have a date, and it is right
    ending_s: int = 0  # how long a pod that is deleted is there yet, while its processes end; 0: gone at once
    fill_s: int = 0  # how long a bookie takes to fill its holes; 0: a release that says nothing of them
    settings_lost: int = 0  # so many orders to take settings do not arrive
    live_keys: "tuple[str, ...]" = ()  # settings that bookies take as they run; (): an older release
    fill_problems: "dict[str, str]" = field(default_factory=dict)  # pod -> why its bookie cannot fill one ledger
    mount: MountProof = MountProof.SHARED
    refuse_grants: str = ""
    aside_problem: str = ""  # why no bookie stores an order that keeps one out, or ends that
    forbidden: str = ""  # a kind that the operator has no right to
    invalid: str = ""  # a kind that the API server refuses
    without_webhook: str = ""  # a kind that no write of is taken while its webhook is down
    webhook_status: int = 500  # what its writes get then; 0: none of them is answered in time
    no_reads: "tuple[str, ...]" = ()  # kinds that the API server fails to read (its etcd, or who encrypts that)
    retry_after_ms: int = 0  # which it asks for then
    reads_failed: int = 0
    denied: "dict[str, KubeError]" = field(default_factory=dict)  # by kind: how each write of one is refused
    has_lease: bool = True
    admit: Callable[[Manifest], Manifest] = as_it_is  # what admission makes of every child
    is_edited_while_read: bool = False  # somebody else changes the cluster in the middle of every pass
    pods: Endings = field(default_factory=Endings)  # what the operator's watch told it
    identities: dict[str, AdminCredentials] = field(default_factory=dict)  # what the present operator process can show
    epoch_seen: int = 0  # by bookies, before this story began
    on_stop: Callable[[str], None] = nothing  # told of each pod that the operator deletes, while it is still there
    on_lowered: Callable[[str], None] = nothing  # told of each pod that goes because its StatefulSet runs fewer
    no_deletion: KubeError | None = None  # how the API server refuses to delete a pod
    no_claim_deletion: KubeError | None = None  # the same of a claim
    no_resize: str = ""  # why the API server refuses every other size (a quota)
    infeasible: "set[str]" = field(default_factory=set)  # claims whose volumes cannot grow
    is_offline: bool = False  # file systems grow only when a pod starts
    before_write: Callable[[str, str], None] = nothing  # told of each apply and creation, before it: kind, name
    on_flush: Callable[[str], None] = nothing  # told of each pod whose bookie is asked to flush
    look_age_ms: int = 0  # how long before its answer a look for references began
    abandoned: int = 0  # open ledgers of dead writers, on every bookie
    drain_rate: int = 60  # entries that a bookie moves away in a second
    is_scheduling: bool = True  # False: new pods stay Pending
    marks: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by entry: the ids that an auditor misses
    marks_problem: str = ""  # why no bookie can look at marks
    marks_take_ms: int = 0  # how long a look at them takes
    marks_asked: list[int] = field(default_factory=list)  # when
    ledgers_asked: list[tuple[str, int]] = field(default_factory=list)  # which a bookie was asked to end, and when
    ledger_takes_ms: int = 0  # an attempt to end one
    ledgers_refused: dict[str, str] = field(default_factory=dict)  # why a bookie would not
    ledgers_gone: "set[str]" = field(default_factory=set)  # of those that a person names, deleted ones
    ledgers_ended: dict[str, tuple[tuple[str, ...], str]] = field(
        default_factory=dict
    )  # what was given up, and by whom
    no_dependents: str = ""  # why no bookie can look for dependents (a release before)
    unreadable: int = 0  # records of ledgers that nobody can read
    asked: "list[tuple[str, str, int]]" = field(default_factory=list)  # who looked for references, to whom, and when
    forgotten: "list[str]" = field(default_factory=list)  # bookie ids, in order
    forget_problem: str = ""  # why no peer forgets anybody
    wrong: "list[str]" = field(default_factory=list)  # what the world itself calls unsafe
    strangers: "Callable[[], tuple[Member, ...]]" = no_members  # of other clusters in the same metadata store
    places: "dict[str, str]" = field(default_factory=dict)  # pod -> the node that it goes to while that takes pods
    still_registered: "set[str]" = field(default_factory=set)  # ids whose session lives on without a pod
    on_claim_gone: Callable[[str], None] = nothing  # told of each claim that the operator deletes, after it is gone
    cut_off: "set[str]" = field(default_factory=set)  # pods on nodes that nobody reaches: they run, and nobody hears so
    stores: "dict[str, str]" = field(default_factory=dict)  # pod -> the metadata store it is in, where it is another
    read_only: "set[str]" = field(default_factory=set)  # pods that a person keeps read-only when their drain ends
    fsids: "dict[str, str]" = field(default_factory=dict)  # bookie id -> the id of its file systems, where another
    disk_figures: "dict[str, tuple[int, int]]" = field(default_factory=dict)  # pod -> bytes used, room
    has_watches: bool = False  # the operator hears of changes, and fleets may rest (bookie_operator/rests.py)
    is_heard: bool = True  # False: its watches say nothing, as behind a connection that is dead
    rolling_max: int = 0  # how many clusters of the operator roll out at a time
    refusals: "dict[str, str]" = field(default_factory=dict)  # clusters that an operator left alone: who keeps them
    releases: "dict[str, tuple[DiskFormat, ...]]" = field(default_factory=dict)  # by image; none: it says nothing
    formats: "dict[str, dict[str, int]]" = field(default_factory=dict)  # bookie id -> what its volumes are written in
    has_local_disks: bool = False  # a volume stays on the node where its claim was bound

    def __repr__(self) -> str:
        """Short: beside an example that fails hypothesis prints it, and all objects would hide the example."""
        return f"World(now_ms={self.now_ms}, {len(self.objects)} objects, {len(self.writes)} writes)"

    def loop_s(self) -> float:
        """The operator's own clock."""
        return self.now_ms / 1_000

    # ---- the API server ------------------------------------------------------------------------------------------

    def _new(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}-{self.serial}"

    def put(self, manifest: Manifest) -> Manifest:
        """Store an object, whoever writes it. One that is as it was keeps its version, and only another spec is
        another generation, as in an API server. Of an object that its caller changed in place nobody knows that."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        known = self.objects.get((kind, name))
        if known is not None and known is not manifest and _versionless(known) == _versionless(manifest):
            return known
        stored = _copy(manifest)
        metadata = stored["metadata"]
        metadata.setdefault("uid", self._new("uid"))
        metadata.setdefault("creationTimestamp", values.format_time(self.now_ms))
        metadata["resourceVersion"] = self._new("rv")
        if kind in GENERATED:
            metadata.setdefault("generation", 1)
            if known is not None and known is not manifest and known.get("spec") != stored.get("spec"):
                metadata["generation"] = known["metadata"].get("generation", 1) + 1
        self.objects[(kind, name)] = stored
        return stored

    def _check(self, kind: str, *, is_read: bool = False) -> None:
        if kind == self.forbidden:
            raise KubeForbidden(kind, 403, "forbidden")
        if kind in self.no_reads and is_read:
            self.reads_failed += 1
            raise KubeError(kind, 500, "failed to decrypt DEK", self.retry_after_ms)
        if kind == self.without_webhook and not is_read:
            raise KubeError(kind, self.webhook_status, "failed calling webhook")
        if kind in self.denied and not is_read:
            raise self.denied[kind]
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

    async def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        live = self._may_be_patched(manifest, "")
        wanted = {key: value for key, value in manifest.items() if key != "status"}  # that is not in this door
        if live is None:
            stored = self.put(self.admit(_copy(wanted)))
        else:
            stored = self.put(self.admit(_merged(self._retracted(live, wanted, manager), wanted)))
        self.managed[stored["metadata"]["uid"], manager] = _copy(wanted)
        return stored

    async def replace_status(self, manifest: Manifest, *, manager: str) -> Manifest:
        live = self._may_be_patched(manifest, "/status")
        if live is None:
            raise KubeError(f"apply {manifest['kind']} {manifest['metadata']['name']}", 404, "not found")
        return self.put(live | {"status": manifest["status"]})

    def _may_be_patched(self, manifest: Manifest, door: str) -> Manifest | None:
        """Note the write, and return what is there. Raises KubeError where an API server takes no such patch."""
        kind, metadata = manifest["kind"], manifest["metadata"]
        self._check(kind)
        _check_size(manifest)
        self.before_write(kind, metadata["name"])
        live = self.objects.get((kind, metadata["name"]))
        for precondition in ("uid", "resourceVersion"):
            wanted = metadata.get(precondition)
            found = live["metadata"][precondition] if live is not None else ""
            # What is not there is made, also where a version is given (as seen on an API server of 1.34).
            if wanted not in (None, "", "0") and found != wanted and (live is not None or precondition == "uid"):
                raise KubeError(f"apply {kind} {metadata['name']}", 409, f"{precondition} is another one")
        if live is not None and "spec" in manifest:
            self._check_change(live, manifest)
        self.writes.append(f"{kind}/{metadata['name']}{door}")
        return live

    def _retracted(self, live: Manifest, wanted: Manifest, manager: str) -> Manifest:
        """Return `live` without what only this manager applied and now applies no more."""
        uid = live["metadata"]["uid"]
        before = self.managed.get((uid, manager))
        others = [one for (its_uid, its), one in self.managed.items() if its_uid == uid and its != manager]
        return live if before is None else _without(live, before, wanted, others)

    def _check_change(self, live: Manifest, manifest: Manifest) -> None:
        """Refuse what an API server refuses of a live object."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        key = "volumeClaimTemplates"
        had = live["spec"].get(key)
        if kind == "StatefulSet" and manifest["spec"].get(key, had) != had:
            raise KubeError(f"apply {kind} {name}", 422, f"spec.{key} is immutable")
        if kind == "PersistentVolumeClaim":
            assert list(manifest["spec"]) == ["resources"], "nothing but its request may change"
            wanted, asked = (values.parse_quantity(_request(one)) for one in (manifest, live))
            has = values.parse_quantity(live["status"]["capacity"]["storage"])
            if self.no_resize:
                raise KubeError(f"apply {kind} {name}", 403, self.no_resize)
            if wanted < asked and wanted <= has:
                raise KubeError(f"apply {kind} {name}", 422, "field can not be less than status.capacity")

    async def create(self, manifest: Manifest) -> Manifest:
        kind, metadata = manifest["kind"], manifest["metadata"]
        self._check(kind)
        _check_size(manifest)
        self.before_write(kind, metadata["name"])
        if (kind, metadata["name"]) in self.objects:
            raise KubeError("create", 409, "exists")
        return self.put(manifest)

    def posted(self, manifest: Manifest, manager: str) -> Manifest:
        """Put a child as operators made it until 03210ed7: by a POST."""
        fields = {"managedFields": [{"manager": manager, "operation": "Update"}]}
        stored = self.put(manifest | {"metadata": manifest["metadata"] | fields})
        self.managed[stored["metadata"]["uid"], f"{manager} {POSTED}"] = _copy(manifest)
        return stored

    async def merge(self, manifest: Manifest) -> Manifest:
        """Only of who manages fields: nothing else is merged."""
        kind, metadata = manifest["kind"], manifest["metadata"]
        self._check(kind)
        live = self.objects.get((kind, metadata["name"]))
        if live is None or live["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise KubeError(f"merge {kind} {metadata['name']}", 409, "the object has been modified")
        self.writes.append(f"{kind}/{metadata['name']} fields")
        uid = live["metadata"]["uid"]
        for one in metadata["managedFields"]:
            if one["operation"] == "Apply" and (uid, f"{one['manager']} {POSTED}") in self.managed:
                self.managed[uid, one["manager"]] = self.managed.pop((uid, f"{one['manager']} {POSTED}"))
        return self.put(live | {"metadata": live["metadata"] | {"managedFields": metadata["managedFields"]}})

    async def replace(self, manifest: Manifest) -> Manifest:
        kind, metadata = manifest["kind"], manifest["metadata"]
        self._check(kind)
        _check_size(manifest)
        live = self.objects.get((kind, metadata["name"]))
        if live is None:
            raise KubeError(f"replace {kind} {metadata['name']}", 404, "not found")
        if metadata.get("resourceVersion", live["metadata"]["resourceVersion"]) != live["metadata"]["resourceVersion"]:
            raise KubeError(f"replace {kind} {metadata['name']}", 409, "the object has been modified")
        return self.put(manifest)

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str, is_orphaning: bool = False
    ) -> None:
        self._check(kind)
        live = self.objects.get((kind, name))
        if live is None:
            return
        metadata = live["metadata"]
        if (metadata["uid"], metadata["resourceVersion"]) != (uid, resource_version):
            raise KubeError(f"delete {kind} {name}", 409, "it is another one")
        if kind == "Pod" and self.no_deletion is not None:
            raise self.no_deletion
        if kind == "PersistentVolumeClaim" and self.no_claim_deletion is not None:
            raise self.no_claim_deletion
        self.writes.append(f"delete {kind}/{name}")
        if kind == "StatefulSet" and not is_orphaning:
            for ordinal in range(live["spec"]["replicas"]):
                self.kill(f"{name}-{ordinal}")
        if kind == "Pod":
            self._judge_stop(name, live)
            self.on_stop(name)
            self.end(name)
        elif kind == "PersistentVolumeClaim":
            self._judge_deletion(name, live)
            user = self.objects.get(("Pod", name.partition("-")[2]))
            if user is not None and user["spec"].get("nodeName"):
                gone_at = {"deletionTimestamp": values.format_time(self.now_ms)}  # Kubernetes keeps it for the pod
                self.put(live | {"metadata": metadata | gone_at})
                return
            self._unprovision(name)
            self.on_claim_gone(name)
        else:
            del self.objects[(kind, name)]

    def _judge_deletion(self, name: str, live: Manifest) -> None:
        """Judge by the world the deletion of a claim whose bookie left or never lived."""
        annotations = live["metadata"].get("annotations") or {}
        is_marked = names.MARK_INCARNATION in annotations
        if is_marked and names.RETIRED_AT not in annotations:
            return  # of a bookie that lost its disks: another story
        pod = names.parse_pod("ledgers", name.partition("-")[2])
        assert pod is not None, name
        bookie_id = names.bookie_id("data", "ledgers", *pod)
        if self.naming(bookie_id):
            self.wrong.append(f"claim {name} is deleted, and {len(self.naming(bookie_id))} entries name its bookie")
        if bookie_id in self.cookies:
            self.wrong.append(f"claim {name} is deleted, and its bookie has a cookie")
        if is_marked and bookie_id not in self.forgotten:
            self.wrong.append(f"claim {name} is deleted, and nobody forgot its bookie by proof")
        if any(one.bookie_id == bookie_id for one in self.bookies.values()):
            self.wrong.append(f"claim {name} is deleted while its bookie runs")
        self.disks.pop(bookie_id, None)

    def _judge_stop(self, pod: str, live: Manifest) -> None:
        """Judge by the world that the operator ends a pod whose volumes go with it."""
        for bookie in self.bookies.values():
            lost = self.disks.get(bookie.bookie_id, set()) & {*self.naming(bookie.bookie_id)}
            if bookie.name == pod and ephemeral_volumes(live) and lost:
                self.wrong.append(f"pod {pod} is deleted, and {len(lost)} entries that name its bookie go with it")

    def naming(self, bookie_id: str) -> "list[int]":
        """The entries whose ledger's metadata names a bookie."""
        return [entry for entry, write_set in enumerate(self.entries) if bookie_id in write_set]

    # ---- controllers, kubelets ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """One second passes: controllers and bookies do their part."""
        self.now_ms += self.step_ms
        for pod in self.of_kind("Pod"):
            gone_at = pod["metadata"].get("deletionTimestamp")
            if gone_at is not None and self.now_ms >= values.parse_time(gone_at):
                self.kill(pod["metadata"]["name"])
        for (kind, _), one in list(self.objects.items()):
            if kind == "StatefulSet":
                self._run_stateful_set(one)
            if kind == "Job" and "status" not in one:
                one["status"] = {"conditions": [self._job_end(one)]}
        for claim in self.of_kind("PersistentVolumeClaim"):
            self._enlarge(claim)
        for bookie in self.bookies.values():
            bookie.tick()
            bookie.drain()
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
        ordinals, size = list(range(one["spec"]["replicas"])), 1
        while ordinals:
            # All at once, and yet the real one ends with the batch in which it cannot change a pod (Kubernetes 1.34).
            batch, ordinals, size = ordinals[:size], ordinals[size:], 2 * size
            if False in [self._run_ordinal(one, ordinal, pool, revision) for ordinal in batch]:
                return
        for kind, name in list(self.objects):
            ordinal = name.removeprefix(mine)
            is_over = kind == "Pod" and name.startswith(mine) and int(ordinal) >= one["spec"]["replicas"]
            if is_over and "deletionTimestamp" not in self.objects[(kind, name)]["metadata"]:
                self.on_lowered(name)
                self.end(name)

    def _run_ordinal(self, one: Manifest, ordinal: int, pool: str, revision: Manifest) -> bool:
        """Make the pod of one number, if it is away; False where its pod lacks a volume that no pod gets as it runs."""
        name = f"{one['metadata']['name']}-{ordinal}"
        templates = {each["metadata"]["name"]: each for each in one["spec"].get("volumeClaimTemplates", [])}
        pod = self.objects.get(("Pod", name))
        if pod is not None and (lacking := templates.keys() - names.data_volumes(pod["spec"])):
            for volume in sorted(lacking):
                self._claim(f"{volume}-{name}", pool, templates[volume], "node")
            return False
        if pod is not None and pod["spec"].get("nodeName"):
            return True
        if pod is not None:  # it waits, as it was made
            revision = self.objects[("ControllerRevision", pod["metadata"]["labels"]["controller-revision-hash"])]
            of_pod = names.data_volumes(pod["spec"])
            had = self.pod_claims.get(name, {})
            templates = {
                volume: templates.get(volume) or had[volume] for volume in of_pod if volume in {**had, **templates}
            }
        node = self._place(name, list(templates))
        if node is None:
            if pod is None:
                self._wait_for_node(name, pool, revision)
            return True
        self.pod_claims[name] = templates
        if False in [self._claim(f"{volume}-{name}", pool, each, node) for volume, each in templates.items()]:
            if pod is None:
                self._wait_for_node(name, pool, revision)
            return True
        uid = pod["metadata"]["uid"] if pod is not None else None
        bookie_id = names.bookie_id("data", "ledgers", pool, ordinal)
        ephemeral = ephemeral_volumes(revision["data"]["spec"]["template"])
        self._start_pod(name, pool, bookie_id, [*templates, *ephemeral], revision, node, uid)
        return True

    def _claim(self, name: str, pool: str, template: Manifest, node: str) -> bool:
        """Make a claim unless it is there, and give it a disk unless there is none; whether it has one."""
        live = self.objects.get(("PersistentVolumeClaim", name))
        if live is not None and live["spec"].get("volumeName"):
            return True
        if template["metadata"]["name"] not in self.no_capacity:
            self._provision(name, pool, _request(template), node, template["spec"])
            return True
        labels = {names.LABEL_CLUSTER: "ledgers", names.LABEL_POOL: pool}
        metadata = {"name": name, "namespace": "data", "labels": labels}
        spec, kind = template["spec"] | {"storageClassName": "standard"}, "PersistentVolumeClaim"
        if live is None:
            self.put({"kind": kind, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
        return False

    def _job_end(self, job: Manifest) -> Manifest:
        image = job["spec"]["template"]["spec"]["containers"][0]["image"]
        kind = "Failed" if image == BROKEN_IMAGE else "Complete"
        return {"type": kind, "status": "True", "lastTransitionTime": values.format_time(self.now_ms)}

    def _revise(self, one: Manifest) -> Manifest:
        """The revision of a StatefulSet's template; of those that no pod runs, only the newest few stay."""
        template, owner = one["spec"]["template"], one["metadata"]["name"]
        name = f"{owner}-{hashlib.sha256(repr(template).encode()).hexdigest()[:8]}"
        generation = one["metadata"]["generation"]
        self.put(one | {"status": {"updateRevision": name, "observedGeneration": generation}})
        if ("ControllerRevision", name) not in self.objects:
            metadata = {"name": name, "namespace": "data", "labels": template["metadata"]["labels"], "owner": owner}
            data = {"spec": {"template": template}}
            self.put({"kind": "ControllerRevision", "metadata": metadata, "data": data, "revision": self.serial})
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

    def _place(self, pod: str, templates: "list[str]") -> str | None:
        """The node that a pod goes to: where its local disks are, else where it likes to be, else any."""
        found = [self.objects.get(("PersistentVolumeClaim", f"{volume}-{pod}")) for volume in templates]
        claims = [one["spec"]["volumeName"] for one in found if one is not None and "volumeName" in one["spec"]]
        volumes = [self.objects[("PersistentVolume", one)] for one in claims]
        bound = [name for one in volumes for name in facts.persistent_volume(one).hostnames]
        nodes = {one["metadata"]["name"]: one for one in self.of_kind("Node")}
        wanted = bound or [self.places.get(pod, "node"), *sorted(nodes)]
        able = [name for name in wanted if name in nodes and not nodes[name]["spec"].get("unschedulable")]
        return able[0] if able and (not bound or set(bound) == {able[0]}) else None

    def _wait_for_node(self, name: str, pool: str, revision: Manifest) -> None:
        no_node = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes fit"}
        self.put(
            {
                "kind": "Pod",
                "metadata": self._pod_metadata(name, pool, revision),
                "spec": dict(revision["data"]["spec"]["template"]["spec"]),
                "status": {"phase": "Pending", "conditions": [no_node]},
            }
        )

    def _unprovision(self, claim: str) -> None:
        """Somebody deletes a claim: what was on its volume is gone."""
        one = self.objects.pop(("PersistentVolumeClaim", claim))
        volume = self.objects[("PersistentVolume", one["spec"]["volumeName"])]
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain":
            self.put(volume | {"status": {"phase": "Released"}})
        else:
            del self.objects[("PersistentVolume", one["spec"]["volumeName"])]
        pod = claim.split("-", 1)[1]
        bookie_id = "data.ledgers." + ".".join(pod.removeprefix("ledgers-").rsplit("-", 1))
        if bookie_id in self.cookies:
            self.disks.pop(bookie_id, None)
            self.dataless.add(bookie_id)

    def _provision(self, claim: str, pool: str, size: str, node: str, template: "dict[str, Any] | None" = None) -> None:
        labels = {names.LABEL_CLUSTER: "ledgers", names.LABEL_POOL: pool}
        volume = self.put({"kind": "PersistentVolume", "metadata": {"name": self._new("pv")}, "spec": {}})
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
        if self.has_local_disks:
            host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}
        self.put(
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim, "namespace": "data", "labels": labels},
                "spec": {"storageClassName": "standard", "accessModes": ["ReadWriteOncePod"]}
                | (template or {})
                | {"volumeName": volume["metadata"]["name"], "resources": {"requests": {"storage": size}}},
                "status": {"phase": "Bound", "capacity": {"storage": size}},
            }
        )

    def _enlarge(self, claim: Manifest) -> None:
        """One second of a resizer and a kubelet: the volume first, then its file system."""
        name, status, wanted = claim["metadata"]["name"], claim["status"], _request(claim)
        if "volumeName" not in claim["spec"]:
            return
        if values.parse_quantity(wanted) <= values.parse_quantity(status["capacity"]["storage"]):
            return
        status = status | {"allocatedResources": {"storage": wanted}}
        stage = [one["type"] for one in status.get("conditions") or ()]
        now = values.format_time(self.now_ms)
        if name in self.infeasible:
            words = {"type": "ControllerResizeError", "status": "True", "message": "the array is full"}
            status |= {"conditions": [words], "allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}}
        elif "FileSystemResizePending" in stage:
            pod = self.objects.get(("Pod", name.split("-", 1)[1]))
            began = values.parse_time(status["conditions"][0]["lastTransitionTime"])
            born = values.parse_time(pod["metadata"]["creationTimestamp"]) if pod is not None else 0
            if not self.is_offline or born > began:
                self.put(claim | {"status": {"phase": "Bound", "capacity": {"storage": wanted}}})
            return
        else:
            word = "FileSystemResizePending" if "Resizing" in stage else "Resizing"
            status |= {"conditions": [{"type": word, "status": "True", "lastTransitionTime": now}]}
            status.pop("allocatedResourceStatuses", None)
        if status != claim["status"]:
            self.put(claim | {"status": status})

    def _pod_metadata(self, name: str, pool: str, revision: Manifest) -> "dict[str, Any]":
        return {
            "name": name,
            "namespace": "data",
            "labels": {
                names.LABEL_CLUSTER: "ledgers",
                names.LABEL_POOL: pool,
                names.LABEL_POD_NAME: name,
                "controller-revision-hash": revision["metadata"]["name"],
            },
            "annotations": revision["data"]["spec"]["template"]["metadata"].get("annotations", {}),
        }

    def _start_pod(
        self,
        name: str,
        pool: str,
        bookie_id: str,
        templates: "list[str]",
        revision: Manifest,
        node: str,
        uid: str | None,
    ) -> None:
        address = f"10.0.0.{self.serial + 1}"
        known_uid = {"uid": uid} if uid is not None else {}
        pod = self.put(
            {
                "kind": "Pod",
                "metadata": self._pod_metadata(name, pool, revision) | known_uid,
                "spec": revision["data"]["spec"]["template"]["spec"] | {"nodeName": node},
                "status": {"phase": "Running", "podIP": address},
            }
        )
        if not self.is_scheduling:
            del pod["spec"]["nodeName"]
            pod["status"] = {"phase": "Pending"}
            return
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
        of_pod = dict.fromkeys(ephemeral_volumes(pod), pod["metadata"]["uid"])
        uids = of_pod | {volume: self.claim_uid(volume, name) for volume in templates if volume not in of_pod}
        old = self.claim_uids.get(bookie_id, {})
        contents = {
            volume: known[volume] if old.get(volume) == uids[volume] else Contents.EMPTY for volume in templates
        }
        formats = self.releases.get(container["image"], ())
        written = self.formats.get(bookie_id, {}) if Contents.VALID in contents.values() else {}
        order = self.asides.get(bookie_id)
        if order is not None and order.is_aside:
            formats = ()  # it opens no volume, and so it says nothing of them
        if any(not one.reads(written.get(one.name, one.writes)) for one in formats):
            # It refuses its volumes, and ends.
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
            pod["status"]["containerStatuses"] = [{"state": {"waiting": waiting}}]
            return
        self.formats[bookie_id] = written | {one.name: one.writes for one in formats}
        self.claim_uids[bookie_id] = old | uids
        self.bookies[f"{address}:3184"] = self._new_bookie(name, bookie_id, pod["metadata"]["uid"], contents)
        self.bookies[f"{address}:3184"].formats = formats
        self.start_container(name)

    def _new_bookie(self, name: str, bookie_id: str, pod_uid: str, contents: "dict[str, Contents]") -> FakeBookie:
        """The process of a new pod, not started; `contents`: EMPTY for volumes that it is the first to have."""
        bookie = FakeBookie(self, name, bookie_id, pod_uid, contents)
        bookie.grant_id = self.lives.get(bookie_id, "")
        return bookie

    def claim_uid(self, volume: str, pod: str) -> str:
        return str(self.objects[("PersistentVolumeClaim", f"{volume}-{pod}")]["metadata"]["uid"])

    # ---- nodes ---------------------------------------------------------------------------------------------------

    def add_node(self, name: str) -> None:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": values.format_time(self.now_ms)}
        labels = {"kubernetes.io/hostname": name}
        self.put(
            {
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": {},
                "status": {"conditions": [ready], "nodeInfo": {"bootID": f"{name}-boot-1"}},
            }
        )

    def reset_disks(self, pod: str, *, boot: str) -> None:
        """The disks of a pod are empty on other file systems, after `boot` of its machine; pod and claims stay."""
        bookie = self.bookie(pod)
        live = self.objects[("Node", self.objects[("Pod", pod)]["spec"]["nodeName"])]
        self.put(live | {"status": live["status"] | {"nodeInfo": {"bootID": boot}}})
        bookie.volumes = dict.fromkeys(bookie.volumes, Contents.EMPTY)
        self.fsids[bookie.bookie_id] = f"fs-of-{boot}"
        self.disks.pop(bookie.bookie_id, None)
        self.dataless.add(bookie.bookie_id)
        self.start_container(pod)

    def cordon(self, node: str, *, is_cordoned: bool = True) -> None:
        live = self.objects[("Node", node)]
        self.put(live | {"spec": live["spec"] | {"unschedulable": is_cordoned}})

    def evict(self, pod: str) -> bool:
        """Somebody asks the eviction API to end a pod; False: the disruption budget refuses (429)."""
        live = self.objects[("Pod", pod)]
        if "deletionTimestamp" in live["metadata"]:
            return True  # it ends already
        spec = self.objects[("PodDisruptionBudget", "ledgers-bookies")]["spec"]
        outside = [name for one in spec["selector"]["matchExpressions"] for name in one["values"]]
        inside = [one for one in self.of_kind("Pod") if one["metadata"]["name"] not in outside]
        away = [one for one in inside if not facts.pod(one).is_ready]
        # Who was evicted a moment ago has no pod, and is counted by its StatefulSet.
        wanted = sum(one["spec"]["replicas"] for one in self.of_kind("StatefulSet"))
        missing = wanted - len(self.of_kind("Pod"))
        # A pod without a controller is healthy and not expected: it makes room for one eviction more.
        room = spec.get("maxUnavailable", 0) - len(away) - missing
        if "minAvailable" in spec:
            room = len(inside) - len(away) - spec["minAvailable"]
        if pod not in outside and facts.pod(live).is_ready and room <= 0:
            return False
        is_guarded = spec["unhealthyPodEvictionPolicy"] == "IfHealthyBudget" and live["spec"].get("nodeName")
        if pod not in outside and is_guarded and not facts.pod(live).is_ready and room < 0:
            return False  # who is not ready goes only while enough others are
        self.writes.append(f"evict/{pod}")
        self.on_stop(pod)
        self.end(pod)
        return True

    def switch_off(self, node: str) -> None:
        """The machine is gone, and nobody says so: its pods stay in the API, and nobody answers there."""
        condition = self.objects[("Node", node)]["status"]["conditions"][0]
        condition |= {"status": "Unknown", "lastTransitionTime": values.format_time(self.now_ms)}
        on_it = {one["metadata"]["name"] for one in self.of_kind("Pod") if one["spec"].get("nodeName") == node}
        for one in self.bookies.values():
            if one.name in on_it:
                one.is_reachable, one.state = False, State.STOPPING

    def delete_node(self, node: str) -> None:
        """Somebody deletes the Node object of a machine that is gone; Kubernetes then drops its pods."""
        del self.objects[("Node", node)]
        for one in self.of_kind("Pod"):
            if one["spec"].get("nodeName") == node:
                self.kill(one["metadata"]["name"], by_force=True)

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
        read = dict(line.split("=", 1) for line in bookie.settings.splitlines())
        bookie.live = {key: read.get(key, "") for key in self.live_keys}
        bookie.start()

    def set_back(self, pod: str, kept: "set[int]") -> None:
        """Somebody puts a volume back to a snapshot of an earlier boot, in which only `kept` was on it."""
        bookie = self.bookie(pod)
        bookie.volumes["ledgers"] = Contents.STALE
        self.disks[bookie.bookie_id] = bookie.disk & kept
        self.dataless.add(bookie.bookie_id)
        self.start_container(pod)

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

    def end(self, pod: str) -> None:
        """The API server is told to delete a pod: one that has a node is there until its kubelet has ended it."""
        live = self.objects.get(("Pod", pod))
        if live is None or not self.ending_s or not live["spec"].get("nodeName"):
            self.kill(pod)
        elif "deletionTimestamp" not in live["metadata"]:
            gone_at = values.format_time(self.now_ms + self.ending_s * 1_000)  # Kubernetes: with the time to end
            self.put(live | {"metadata": live["metadata"] | {"deletionTimestamp": gone_at}})
            for one in self.bookies.values():
                if one.name == pod:
                    one.state = State.STOPPING

    def kill(self, pod: str, *, by_force: bool = False) -> None:
        """Somebody deletes a pod, and its kubelet says that it ended; by force: the object goes, and nobody says so."""
        one = self.objects.pop(("Pod", pod), None)
        if one is not None:
            if not by_force and pod not in self.cut_off:
                ended = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}
                one = one | {"status": one["status"] | ended}
            self.pods.saw(one)
        for each in self.bookies.values():
            if each.name == pod:
                self.contents[each.bookie_id] = self.contents.get(each.bookie_id, {}) | each.volumes
            if each.name == pod and one is not None and ephemeral_volumes(one) and each.bookie_id in self.cookies:
                self.disks.pop(each.bookie_id, None)
                self.dataless.add(each.bookie_id)
        for claim in self.of_kind("PersistentVolumeClaim"):
            name = claim["metadata"]["name"]
            if one is not None and name.endswith(f"-{pod}") and "deletionTimestamp" in claim["metadata"]:
                self._unprovision(name)
                self.on_claim_gone(name)
        self.bookies = {address: one for address, one in self.bookies.items() if one.name != pod}

    def edit(self, **spec_changes: Any) -> None:
        """Somebody applies another spec."""
        live = self.objects[(names.KIND, "ledgers")]
        live["spec"] |= spec_changes
        live["metadata"]["generation"] += 1
        self.put(live)

    def ask(self, name: str, kind: str, **spec: Any) -> None:
        """Somebody creates a BookieOperation."""
        self.put(
            {
                "apiVersion": names.API_VERSION,
                "kind": names.OPERATION_KIND,
                "metadata": {"name": name, "namespace": "data", "generation": 1},
                "spec": {"clusterRef": {"name": "ledgers"}, "type": kind} | spec,
            }
        )

    def evidence(self, *pods: str) -> "list[dict[str, str]]":
        """What somebody copies from the status, who accepts a loss."""
        found = [self.status().bookie(pod) for pod in pods]
        return [{"name": one.name, "evidence": one.evidence or ""} for one in found if one is not None]

    def operation(self, name: str) -> OperationStatus:
        return operations.parse(self.objects[(names.OPERATION_KIND, name)]).status

    def scale(self, stateful_set: str, replicas: int) -> None:
        """kubectl scale, past the operator."""
        live = self.objects[("StatefulSet", stateful_set)]
        self.put(live | {"spec": live["spec"] | {"replicas": replicas}})

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
                for revision in self.of_kind("ControllerRevision"):
                    if revision["metadata"]["owner"] == name:
                        del self.objects[("ControllerRevision", revision["metadata"]["name"])]
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

    def thin_entries(self) -> "list[int]":
        """Entries that fewer bookies hold, of those that the metadata name and that are not lost, than acknowledged
        them."""
        return [
            entry
            for entry, write_set in enumerate(self.entries)
            if sum(entry in self.disks.get(one, ()) or one in self.dataless for one in write_set) < 2
        ]

    def uncounted(self) -> "list[str]":
        """Bookies that may hold data and that the status, once it had a look, does not name."""
        status = self.status()
        told = {one.bookie_id for one in (*status.bookies, *status.orphans)}
        is_new = status.observed_generation != self.objects[(names.KIND, "ledgers")]["metadata"]["generation"]
        return [] if is_new else sorted({str(one.bookie_id) for one in self.own_members()} - told)

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
        version, incarnation = self.cookies.get(bookie.bookie_id, [-1, self.last_lives.get(bookie.bookie_id, 0)])
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
            instance_id=self.stores.get(bookie.name, "instance"),
            cookie_present=version >= 0,
            cookie_version=version,
            incarnation=Incarnation(incarnation),
            boot_epoch=BootEpoch(self.boot_epochs.get(bookie.bookie_id, 1)),
            ledgers_naming_me=0,
            volumes=tuple(self._volume(bookie, volume, incarnation) for volume in bookie.volumes),
            evidence_hash=bookie.evidence,
            capabilities=CAPABILITIES,
            operator_epoch_seen=max((grant.epoch for grant in self.accepted), default=self.epoch_seen),
            has_turn=bool(bookie.turn_end_ms),
            is_draining=bookie.is_draining,
            grant_id=bookie.grant_id,
            granted_by=bookie.granted_by,
            read_only=bookie.state is State.READ_ONLY,
            garbage_held_ledgers=0,
            directories_failed=bookie.failed,
            whole_since_boot=None if bookie.fill is None else bookie.fill.is_whole,
            ledger_bytes_used=self.disk_figures.get(bookie.name, (-1, -1))[0],
            ledger_bytes_room=self.disk_figures.get(bookie.name, (-1, -1))[1],
            aside=self.asides.get(bookie.bookie_id),
            live_settings=tuple(f"{key}={text}" for key, text in sorted(bookie.live.items())),
            formats=bookie.formats,
        )

    def _volume(self, bookie: FakeBookie, volume: str, incarnation: int) -> VolumeReport:
        contents = bookie.volumes[volume]
        sentinel = make.sentinel(bookie.bookie_id, incarnation) if contents is Contents.VALID else None
        if contents is Contents.STALE:
            sentinel = replace(make.sentinel(bookie.bookie_id, incarnation), boot_epoch=BootEpoch(0))
        return VolumeReport(
            volume,
            volume,
            f"/bookie/{volume}",
            MountReport(
                self.mount, fsid=self.fsids.get(bookie.bookie_id, "fs"), root=root_of_empty_dir(bookie.pod_uid, volume)
            ),
            contents,
            sentinel,
        )

    async def members(self, door: Door) -> tuple[Member, ...]:
        self._at(door)
        if self.members_problem:
            raise BookieUnreachable(self.members_problem)
        return (*self.own_members(), *self.strangers())

    def own_members(self) -> tuple[Member, ...]:
        serving = {one.bookie_id for one in self.bookies.values() if one.state.serves} | self.still_registered
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

    async def fill(self, door: Door) -> FillStatus:
        found = self._at(door).fill
        assert found is not None, "a bookie that says nothing of holes is asked about them"
        return found

    async def fill_holes(self, door: Door) -> None:
        bookie = self._at(door)
        assert bookie.fill is not None
        assert not bookie.fill.is_running
        self.writes.append(f"fill/{bookie.name}")
        bookie.fill = FillStatus(is_running=True, began_ms_ago=0)

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
        awaited = State.HELD if grant.profile == ROLLBACK else State.WAITING_GRANT
        assert bookie.state is awaited, "a grant for a bookie that waits for none"
        assert (grant.pod_uid, grant.report_evidence) == (bookie.pod_uid, bookie.evidence)
        assert (grant.cookie_version, grant.new_incarnation) == (version, incarnation + 1)
        assert max((one.epoch for one in self.accepted), default=0) <= grant.epoch <= OPERATOR_EPOCH_MAX
        if grant.epoch < self.epoch_seen:
            return GrantAnswer(False, "old_epoch", f"{self.epoch_seen} was seen")
        bookie.grant_id, bookie.state, bookie.claimed = grant.id, State.FENCING, Verdict.LOST
        bookie.granted_by = f"certificate: {grant.issued_by}"
        self.accepted.append(grant)
        self.granted_for_ms.append(ttl_ms)
        if len(self.dataless) > 1:
            self.past_tolerance.append(grant)
        return GrantAnswer(True)

    async def prepare_shutdown(self, door: Door, order: StopTurn) -> tuple[bool, str]:
        await asyncio.sleep(0)  # what another operator does meanwhile, this one's look did not see
        bookie = self._at(door)
        self.writes.append(f"flush/{bookie.name}")
        told = self.status()
        step = told.rollout.step if told.rollout is not None else None
        turn = told.eviction.turn if told.eviction is not None else None
        turns = [one.pod_uid for one in (step, turn) if one is not None]
        entry = told.bookie(bookie.name)
        retires = entry is not None and entry.leaving is not None and entry.leaving.state is Departure.RETIRING
        turns += [bookie.pod_uid] if retires else []
        asleep = told.hibernation
        if asleep is not None and asleep.state is HibernationState.STOPPING:
            assert not turns, "who puts a fleet to sleep has the turn of all"
            turns = [bookie.pod_uid]
        assert turns == [bookie.pod_uid], "nobody flushes whose turn is not stored, and there is one turn"
        assert bookie.state in (State.SERVING, State.READ_ONLY), bookie.state
        assert (order.pod_uid, order.operator_epoch > 0) == (bookie.pod_uid, True)
        bookie.state, bookie.turn_end_ms = State.READ_ONLY, self.now_ms + order.ttl_ms
        bookie.is_sealed = order.is_sealed
        self.now_ms += bookie.flush_ms
        self.on_flush(bookie.name)
        why = bookie.flush_problem or " ".join(f"{one} takes no writes" for one in bookie.failed)
        return not why, why or "flushed"

    async def resume(self, door: Door, *, operator_epoch: int) -> None:
        bookie = self._at(door)
        assert operator_epoch > 0
        self.writes.append(f"resume/{bookie.name}")
        bookie.end_turn()

    async def look_at_drain(self, door: Door) -> DrainStatus:
        bookie = self._at(door)
        left = len(self.naming(bookie.bookie_id))
        stuck = (
            left if bookie.is_draining and sum(one.state is State.SERVING for one in self.bookies.values()) < 3 else 0
        )
        blocked = tuple(BlockedLedger(LedgerId(one), "no bookie is left to take it") for one in range(min(stuck, 20)))
        return DrainStatus(
            is_draining=bookie.is_draining,
            ledgers_total=left + bookie.moved,
            ledgers_left=left,
            entries_copied=bookie.moved,
            bytes_copied=bookie.moved * 100,
            bytes_per_second=6_000.0,
            blocked=blocked,
            blocked_count=stuck,
            is_empty=bookie.is_draining and bookie.is_empty and not left,
            open_ledgers=0 if bookie.drain_order[0] else self.abandoned,
            recovers_open_ledgers=bookie.is_draining and bookie.drain_order[0],
            asked_bytes_per_second=bookie.drain_order[1] if bookie.is_draining else 0,
            operator_epoch=bookie.drained_by if bookie.is_draining else 0,
        )

    async def drain(
        self, door: Door, *, operator_epoch: int, bytes_per_second: int, open_ledgers: OpenLedgers
    ) -> DrainStatus:
        bookie = self._at(door)
        self.writes.append(f"drain/{bookie.name}")
        stored = self.status().bookie(bookie.name)
        assert operator_epoch > 0
        assert stored is not None, "nobody is drained whose state is not stored"
        assert stored.leaving is not None, "nobody is drained whose state is not stored"
        assert stored.leaving.state is Departure.DRAINING, "nobody is drained whose state is not stored"
        if bookie.state is State.SERVING:
            bookie.state = State.READ_ONLY
        bookie.drained_by = bookie.drained_by if bookie.is_draining else operator_epoch
        bookie.is_draining = True
        bookie.drain_order = (open_ledgers is OpenLedgers.RECOVER, bytes_per_second)
        return await self.look_at_drain(door)

    async def cancel_drain(self, door: Door, *, operator_epoch: int) -> DrainStatus:
        bookie = self._at(door)
        assert operator_epoch > 0
        self.writes.append(f"cancel/{bookie.name}")
        bookie.is_draining = bookie.is_empty = False
        bookie.moved = 0
        if bookie.state is State.READ_ONLY and not bookie.turn_end_ms and bookie.name not in self.read_only:
            bookie.state = State.SERVING
        return await self.look_at_drain(door)

    async def find_references(self, door: Door, bookie_id: str) -> References:
        self.asked.append((self._at(door).name, bookie_id, self.now_ms))
        left = len(self.naming(bookie_id))
        return References(bookie_id, left + self.unreadable, unreadable=self.unreadable, age_ms=self.look_age_ms)

    async def find_dependents(self, door: Door, bookie_ids: tuple[str, ...]) -> References:
        self.asked.append((self._at(door).name, " ".join(bookie_ids), self.now_ms))
        if self.no_dependents:
            raise BookieUnreachable(self.no_dependents)
        found = [entry for entry, write_set in enumerate(self.entries) if len(set(write_set) & set(bookie_ids)) >= 2]
        first = tuple(BlockedLedger(LedgerId(entry), "on them alone") for entry in found[:20])
        return References(" ".join(bookie_ids), len(found) + self.unreadable, first, self.unreadable, self.look_age_ms)

    async def find_marked(self, door: Door, bookie_ids: tuple[str, ...]) -> MarkedLedgers:
        self._at(door)
        self.marks_asked.append(self.now_ms)
        if self.marks_problem:
            raise BookieUnreachable(self.marks_problem)
        held = []
        for one in bookie_ids:
            found = tuple(
                BlockedLedger(LedgerId(entry), "replicas are missing")
                for entry, missing in self.marks.items()
                if one in self.entries[entry] and len(set(self.entries[entry]) & {one, *missing}) >= 2
            )
            held += [HeldBack(one, found)] if found else []
        return MarkedLedgers(tuple(held), len(self.marks), self.marks_take_ms)

    async def forget_bookie(
        self, door: Door, bookie_id: str, *, cookie_version: int, operator_epoch: int
    ) -> ForgetAnswer:
        bookie = self._at(door)
        self.writes.append(f"forget/{bookie_id}")
        assert operator_epoch > 0
        assert bookie.bookie_id != bookie_id
        status = self.status()
        (stored,) = [one for one in (*status.bookies, *status.orphans) if one.bookie_id == bookie_id]
        assert stored.leaving is not None, "nobody is forgotten whose proof is not stored"
        assert stored.leaving.state is Departure.FORGETTING, "nobody is forgotten whose proof is not stored"
        assert stored.leaving.is_proven, "nobody is forgotten whose proof is not stored"
        record = json.loads(self.objects[("ConfigMap", "ledgers-record")]["data"]["record.json"])
        (kept,) = [one for one in record["bookies"] if one["bookieId"] == bookie_id]
        assert len(kept["leaving"]["looks"]) == 3, "nobody is forgotten whose proof is not in the record"
        if self.forget_problem:
            return ForgetAnswer(False, "locked", self.forget_problem)
        cookie = self.cookies.get(bookie_id)
        if any(one.bookie_id == bookie_id and one.state.serves for one in self.bookies.values()):
            return ForgetAnswer(False, "registered", "it is registered")
        if self.naming(bookie_id) or self.unreadable:
            return ForgetAnswer(False, "named", "ledgers name it")
        if cookie is not None and cookie[0] != cookie_version:
            return ForgetAnswer(False, "cookie_changed", f"its cookie has version {cookie[0]}")
        if cookie is not None:
            del self.cookies[bookie_id]
            self.last_lives[bookie_id] = cookie[1]  # who begins anew under this id has the next life
            self.forgotten.append(bookie_id)
            self.dataless.discard(bookie_id)  # nothing is missed of whom no ledger names
        return ForgetAnswer(True, text="forgotten")

    async def set_aside(self, door: Door, bookie_id: str, order: Aside, *, operator_epoch: int) -> OrderAnswer:
        self._at(door)
        assert operator_epoch > 0
        stored = self.asides.get(bookie_id)
        self.writes.append(f"{'aside' if order.is_aside else 'back'}/{bookie_id}")
        (target,) = [one for one in self.bookies.values() if one.bookie_id == bookie_id] or [None]
        if order.is_aside and target is not None and target.state.serves:
            told = self.status().rollout
            assert told is not None
            assert told.step is not None, "nobody who serves is kept out whose turn is not stored"
            assert (told.step.bookie, target.state) == (target.name, State.READ_ONLY), "and who has not flushed"
        if self.aside_problem:
            return OrderAnswer(False, "not_stored", self.aside_problem)
        if stored is not None and (order.asked_ms, order.order_id) < (stored.asked_ms, stored.order_id):
            return OrderAnswer(False, "overtaken", f"{stored.order_id} was later")
        self.asides[bookie_id] = order
        return OrderAnswer(True, text="written")

    async def restore_cookie(self, door: Door, evidence_hash: str, *, operator_epoch: int) -> OrderAnswer:
        bookie = self._at(door)
        assert operator_epoch > 0
        self.writes.append(f"cookie/{bookie.bookie_id}")
        assert set(bookie.volumes.values()) == {Contents.VALID}, "only whole disks say what a cookie was"
        if (bookie.claimed, bookie.evidence) != (Verdict.COOKIE_MISSING, evidence_hash):
            return OrderAnswer(False, "evidence_changed", "something is not as it was")
        self.cookies[bookie.bookie_id] = [0, self.last_lives.pop(bookie.bookie_id)]
        bookie.start()
        return OrderAnswer(True, text="made")

    async def accept_ledger_loss(
        self, door: Door, ledger: str, bookie_ids: tuple[str, ...], *, by: str, reason: str, operator_epoch: int
    ) -> OrderAnswer:
        assert self._at(door).state.serves
        assert operator_epoch > 0
        assert reason
        self.ledgers_asked.append((ledger, self.now_ms))
        self.now_ms += self.ledger_takes_ms
        if ledger in self.ledgers_gone:
            return OrderAnswer(False, "missing", f"there is no ledger {ledger}")
        if why := self.ledgers_refused.get(ledger):
            return OrderAnswer(False, "may_answer", why)
        known = self.ledgers_ended.setdefault(ledger, (bookie_ids, by))  # who was first stands in the record
        self.writes.append(f"ledger/{ledger}")
        return OrderAnswer(True, text=f"ledger {ledger} is closed; given up by {known[1]}")

    async def change_settings(self, door: Door, wanted: Mapping[str, str], *, operator_epoch: int) -> OrderAnswer:
        bookie = self._at(door)
        assert operator_epoch > 0
        if self.settings_lost:
            self.settings_lost -= 1
            raise BookieUnreachable("nobody answers")
        self.writes.append(f"settings/{bookie.bookie_id}")
        if foreign := wanted.keys() - bookie.live.keys():
            return OrderAnswer(False, "not_live", f"{foreign} need a restart")
        template = self.objects[("StatefulSet", bookie.name.rpartition("-")[0])]["spec"]["template"]
        (name,) = facts.config_maps(template["spec"])
        lines = self.objects[("ConfigMap", name)]["data"][names.SETTINGS_FILE].splitlines()
        for key, text in wanted.items():
            if (f"{key}={text}" in lines) is not bool(text):
                self.wrong.append(f"{bookie.name} took {key}={text}, and would begin with another after a restart")
            bookie.live[key] = text
        return OrderAnswer(True, text="in force")

    # ---- the operator --------------------------------------------------------------------------------------------

    def status(self) -> BookieClusterStatus:
        return clusters.parse_status(self.objects[(names.KIND, "ledgers")].get("status"))

    def events(self) -> "list[str]":
        return [one["reason"] for (kind, _), one in self.objects.items() if kind == "Event"]

    def note(self, reason: str) -> str:
        """The text of the one event of this kind."""
        (event,) = [one for (kind, _), one in self.objects.items() if kind == "Event" and one["reason"] == reason]
        return str(event["note"])

    def _wall_ms(self) -> int:
        """The clock of the operator's node."""
        return self.now_ms + self.ahead_ms

    def certifier(
        self, store: Callable[[Manifest, Manifest | None, str], Awaitable[None]], namespace: str = "system"
    ) -> Identities:
        token = random.Random(self.leases).randbytes
        return Identities(self, store, self.ports, self._wall_ms, token, namespace=namespace, process="operator")

    @property
    def ports(self) -> Ports:
        """How the operator reaches bookies, and shows them who it is."""
        return self

    def operator(
        self,
        crash: CrashPoint | None = None,
        *,
        has_watched: bool = True,
        owner: str = "",
        selector: str = "",
        kube: Kube | None = None,
        may_act: Callable[[], bool] | None = None,
    ) -> Reconciler:
        """A new operator process that has just taken the lease; it has seen what became of pods, or begins to look.
        `kube`: what stands between it and this world; `owner`, `selector`: as of several installations."""
        api = kube if kube is not None else self
        self.leases += 1
        self.identities = {}
        if not has_watched:
            self.pods = Endings()
        for pod in self.of_kind("Pod"):
            self.pods.saw(pod)
        term = Term(f"operator-{self.leases}", self.leases)
        executor = Executor(
            api,
            self.ports,
            Recorder(api, "operator", self.loop_s),
            crash or CrashPoint(0, ""),
            may_act=may_act or (lambda: self.has_lease),
            loop_s=self.loop_s,
        )

        return Reconciler(
            api,
            self.ports,
            executor,
            lambda: term,
            self._wall_ms,
            self.pods,
            self.certifier(executor.store),
            Watches(self),
            GlancedNodes(api, self._wall_ms),
            image=make.IMAGE,
            version="test",
            rolling_max=self.rolling_max,
            owner=owner,
            selector=selector,
            refused=lambda _namespace, name, by: self.refusals.update({name: by}),
            ahead_ms=lambda: self.ahead_ms if self.says_time else 0,
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


class Watches(Rests):
    """What the operator's watches tell it of a world, before each pass. `World.has_watches` False: its fleets never
    rest, so that no story has to say what nobody watches."""

    def __init__(self, world: World) -> None:
        super().__init__(lambda: world.now_ms if world.has_watches else world.now_ms * FULL_LOOK_MS)
        self._world = world
        self._known = self._seen()

    def of(self, key: FleetKey) -> Rest | None:
        if self._world.has_watches and self._world.is_heard:
            known, self._known = self._known, self._seen()
            if known != self._known:
                self.stir(key)
        return super().of(key)

    def _seen(self) -> bytes:
        """All that an event would be about, by the rules of `watch.registry`."""
        if not self._world.has_watches:
            return b""
        plurals = {plural for _, _, plural in watch.CHILDREN}
        found: list[object] = [
            one
            for (kind, _), one in sorted(self._world.objects.items())
            if RESOURCES[kind].plural in plurals
            and (one["metadata"].get("labels") or {}).get(names.LABEL_MANAGED_BY) == names.MANAGED_BY
            and names.LABEL_CLUSTER in one["metadata"]["labels"]
        ]
        for one in self._world.of_kind(names.KIND):
            metadata = one["metadata"]
            found.append([metadata.get(name) for name in ("uid", "generation", "deletionTimestamp", "annotations")])
        found += sorted(one["metadata"]["uid"] for one in self._world.of_kind(names.OPERATION_KIND))
        return json.dumps(found, sort_keys=True).encode()


def _request(manifest: Manifest) -> str:
    return str(manifest["spec"]["resources"]["requests"]["storage"])


def ephemeral_volumes(pod: Manifest) -> "list[str]":
    """The names of the volumes that go with a pod, or with the pods of a template."""
    volumes = pod["spec"].get("volumes") or ()
    return [one["name"] for one in volumes if "emptyDir" in one and not one["name"].startswith("bookie-")]


def _directories(settings: str) -> "tuple[list[str], ...]":
    """The volumes of ledgers and of the index that a bookie's settings name, in their order."""
    read = dict(line.split("=", 1) for line in settings.splitlines())
    found = [read.get(key, "") for key in ("ledgerDirectories", "indexDirectories")]
    return tuple([path.rpartition("/")[2] for path in paths.split(",") if path] for paths in found)


def root_of_empty_dir(pod_uid: str, volume: str) -> str:
    """What the kernel says of the mount, where it is the pod's own."""
    return f"/kubelet/pods/{pod_uid}/volumes/kubernetes.io~empty-dir/{volume}"


def _field(manifest: Manifest, path: str, wanted: str) -> bool:
    found: Any = manifest
    for name in path.split("."):
        found = (found or {}).get(name)
    return bool(found == wanted)


def clone(world: World) -> World:
    return pickle.loads(pickle.dumps(world))  # type: ignore[no-any-return]


def _copy(value: Any) -> Any:
    """A deep copy of what goes into JSON: its maps and lists are made anew, and nothing else of it can change."""
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_copy(one) for one in value])
    return value


def _versionless(manifest: Manifest) -> Manifest:
    metadata = {
        key: value for key, value in manifest["metadata"].items() if key not in ("resourceVersion", "generation")
    }
    return manifest | {"metadata": metadata}


def _check_size(manifest: Manifest) -> None:
    """Refuse what is too large for an API server and its etcd."""
    kind, metadata = manifest["kind"], manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    if sum(len(key) + len(text.encode()) for key, text in annotations.items()) > ANNOTATIONS_BYTES_MAX:
        raise KubeError(f"{kind} {metadata['name']}", 422, "metadata.annotations: Too long")
    if kind in ("ConfigMap", "Secret") and len(json.dumps(manifest.get("data") or {})) > DATA_BYTES_MAX:
        raise KubeError(f"{kind} {metadata['name']}", 422, "data: Too long")
    if len(json.dumps(manifest)) > OBJECT_BYTES_MAX:
        raise KubeError(f"{kind} {metadata['name']}", 500, "etcdserver: request is too large")


def _without(live: Any, before: Any, wanted: Any, others: "list[Any]") -> Any:
    """Return `live` without the leaves of `before` that neither `wanted` nor one of `others` has. Lists are leaves."""
    if not (isinstance(live, dict) and isinstance(before, dict)):
        return live
    out = dict(live)
    for key, value in before.items():
        is_leaf = not isinstance(value, dict)
        theirs = [one.get(key) for one in others if isinstance(one, dict) and key in one]
        if key not in out or (is_leaf and (key in wanted or theirs)):
            continue
        if is_leaf:
            del out[key]
        else:
            out[key] = _without(out[key], value, wanted.get(key) or {}, theirs)
    return out


def _merged(live: Any, desired: Any) -> Any:
    if isinstance(live, dict) and isinstance(desired, dict):
        return live | {key: _merged(live.get(key), value) for key, value in desired.items()}
    return _copy(desired)


def ephemeral(**spec_changes: Any) -> World:
    """The same, with volumes that go with their pods."""
    out = world(**spec_changes)
    out.edit(**on_ephemeral_volumes(out.spec()))
    return out


def on_ephemeral_volumes(spec: "dict[str, Any]") -> "dict[str, Any]":
    """The edit by which all volumes go with their pods."""
    storage = _copy(spec["storage"])
    for role in ("journal", "ledgers", "index"):
        for volume in storage[role]["volumes"]:
            volume.pop("allowSharedFilesystem", None)
            volume["kind"] = "Ephemeral"
    return {"storage": storage, "lifecycle": {"deletionPolicy": "Delete"}}


def world(**spec_changes: Any) -> World:
    """A cluster resource that nobody has looked at yet, on shared disks."""
    out = World()
    manifest = make.manifest(**spec_changes)
    for role in ("journal", "ledgers", "index"):
        for volume in manifest["spec"]["storage"][role]["volumes"]:
            volume["allowSharedFilesystem"] = True
    out.put(manifest)
    out.add_node("node")
    return out
