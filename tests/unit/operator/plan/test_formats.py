"""Formats on disk, compared both ways before a bookie comes back with another program (spec/operator.md#Q21)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import DiskFormat, Member, State
from bookie_operator.evidence.facts import BookieCase, NodeFacts
from bookie_operator.model.operation import OperationPhase
from bookie_operator.model.spec import Disruption
from bookie_operator.model.status import (
    BookieClusterStatus,
    BookieStatus,
    EvictionStatus,
    EvictionTurn,
    RolloutStatus,
    RolloutStep,
    VolumeStatus,
    WrittenFormat,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet, formats
from bookie_operator.plan.actions import FlushBookie, ResumeBookie, StopBookie
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.rollout import Rollout
from bookie_operator.status import conditions

FIRST, LAST = "ledgers-zone-a-0", "ledgers-zone-c-0"
HALT = {"strategy": "Automatic", "soakSeconds": 10}
ROLLBACK = HALT | {"onFailure": "Rollback"}
MANUAL = {"strategy": "Manual", "onFailure": "Rollback"}
LONG_AGO_MS = make.NOW_MS - 3_600_000
OLD = (DiskFormat("journal", 3, 3, 3), DiskFormat("index", 2, 3, 2))
NEWER = (DiskFormat("journal", 3, 3, 3), DiskFormat("index", 2, 4, 4))  # reads what the old one writes
BOTH = (DiskFormat("journal", 3, 3, 3), DiskFormat("index", 2, 4, 2))  # reads more, writes the same
STRICT = (DiskFormat("journal", 4, 4, 4), DiskFormat("index", 2, 3, 2))  # reads no old journal
NO_START = "ledgers-zone-a-0 has written"
NO_WAY_BACK = "there is no way back"


def with_formats(case: BookieCase, formats: tuple[DiskFormat, ...], **report: Any) -> BookieCase:
    assert case.report is not None
    return replace(case, report=replace(case.report, formats=formats, **report))


def of(case: BookieCase) -> tuple[DiskFormat, ...]:
    assert case.report is not None
    return case.report.formats


def bookie(
    case: BookieCase, formats: tuple[DiskFormat, ...], revision: str, created_ms: int = LONG_AGO_MS, **pod: Any
) -> BookieCase:
    assert case.pod is not None
    known = {"ready_since_ms": LONG_AGO_MS, "inputs": "v1-older", "resource_version": "5", "created_ms": created_ms}
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    made = replace(case.pod, revision=revision, **(known | pod))
    return with_formats(replace(case, pod=made, member=member), formats)


def template(image: str, cpu: str = "1") -> dict[str, Any]:
    own = {"name": "bookie", "image": image, "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [{"name": "sidecar", "image": "other:1"}, own]}}


TEMPLATES = {"rev-1": template("bookie:next"), "rev-0": template("bookie:before"), "rev-2": template("bookie:before")}


def bookies(old: tuple[DiskFormat, ...], new: tuple[DiskFormat, ...]) -> tuple[BookieCase, ...]:
    """The first is of the older revision, the others of the newest."""
    first, *others = make.fleet()
    return (bookie(first, old, "rev-0"), *(bookie(one, new, "rev-1") for one in others))


def seen(
    cases: tuple[BookieCase, ...],
    rollout: dict[str, Any] = HALT,
    *,
    status: dict[str, Any] | None = None,
    **changes: Any,
) -> Observation:
    known = BookieClusterStatus(observed_generation=1, instance_id="instance", **(status or {}))
    spec = {"rollout": rollout}
    return make.observation(
        cases,
        status=known,
        spec_changes=spec,
        children=make.rolled_out(**spec),
        **({"templates": TEMPLATES} | changes),
    )


def plan(*arguments: Any, **changes: Any) -> FleetPlan:
    return fleet.decide(seen(*arguments, **changes))


def decided(*arguments: Any, **changes: Any) -> Rollout:
    return plan(*arguments, **changes).rollout


def is_stopped(found: Rollout) -> bool:
    return isinstance(found.action, StopBookie) and found.action.bookie == FIRST


@pytest.mark.parametrize(
    ("old", "new", "rollout", "words"),
    [
        (OLD, OLD, HALT, ""),
        (OLD, OLD, ROLLBACK, ""),
        (OLD, BOTH, ROLLBACK, ""),
        (OLD, NEWER, HALT, ""),
        (OLD, NEWER, ROLLBACK, NO_WAY_BACK),
        (NEWER, OLD, HALT, NO_START),
        (NEWER, OLD, ROLLBACK, NO_START),
        (OLD, STRICT, HALT, NO_START),
        (OLD, STRICT, ROLLBACK, NO_START),
        ((), NEWER, ROLLBACK, ""),
        (OLD, (), ROLLBACK, ""),
        (OLD, (*OLD, DiskFormat("something new", 1, 1, 1)), ROLLBACK, ""),
        ((*OLD, DiskFormat("something old", 1, 1, 1)), OLD, ROLLBACK, ""),
    ],
    ids=[
        "the same", "the same, Rollback", "reads more", "writes more, Halt", "writes more, Rollback", "back",
        "back, Rollback", "reads no old journal", "reads no old journal, Rollback", "the old says nothing",
        "the new says nothing", "a kind that the old does not know", "a kind that the new does not know",
    ],
)  # fmt: skip
def test_each_row_of_the_table(
    old: tuple[DiskFormat, ...], new: tuple[DiskFormat, ...], rollout: dict[str, Any], words: str
) -> None:
    found = decided(bookies(old, new), rollout)

    assert is_stopped(found) is not bool(words)
    assert words in found.halted
    assert bool(found.halted) is bool(words)
    assert found.halted == (found.status.waiting_for or "") or not words
    if words:
        assert found.status.step is None
        assert found.halted_by == "", "no bookie failed: nothing is taken back"


def test_the_words_name_kind_numbers_and_what_to_do() -> None:
    there = decided(bookies(NEWER, OLD)).halted
    back = decided(bookies(OLD, NEWER), ROLLBACK).halted
    strict = decided(bookies(OLD, STRICT)).halted

    assert there == (
        "ledgers-zone-a-0 has written index format 4, and ledgers-zone-c-0, which runs the image that it would come"
        " back with, reads only 2 to 3: it would not start; set spec.image to a release that reads index format 4"
    )
    assert back == (
        "ledgers-zone-c-0, which runs the image that ledgers-zone-a-0 would come back with, writes index format 4, and"
        " ledgers-zone-a-0 reads only 2 to 3 as it is: there is no way back; spec.rollout.onFailure is Rollback: set it"
        " to Halt to go on without a way back, or spec.image back"
    )
    assert "has written journal format 3, and ledgers-zone-c-0" in strict
    assert "reads only 4: it would not start" in strict


def test_with_halt_it_goes_on_and_the_status_says_that_there_is_no_way_back() -> None:
    found = plan(bookies(OLD, NEWER))
    told = {one.type: one for one in conditions.of(found)}

    assert is_stopped(found.rollout)
    for kind in ("Reconciling", "UpToDate"):
        assert told[kind].message.endswith("there is no way back"), told[kind]
    assert told["Stalled"].status == "False"


def test_a_halt_of_that_kind_is_told_once_and_needs_a_person() -> None:
    told = {one.type: one for one in conditions.of(plan(bookies(OLD, NEWER), ROLLBACK))}

    assert told["Stalled"].reason == told["Reconciling"].reason == told["UpToDate"].reason == "RolloutHalted"
    assert told["UpToDate"].message.count(NO_WAY_BACK) == 1


def test_where_a_person_ends_the_pods_he_is_told_and_nothing_is_called_halted() -> None:
    for old, new, words in ((NEWER, OLD, NO_START), (OLD, NEWER, NO_WAY_BACK)):
        found = plan(bookies(old, new), MANUAL)
        told = {one.type: one for one in conditions.of(found)}

        assert words in told["UpToDate"].message
        assert (found.rollout.halted, told["Stalled"].status) == ("", "False")


@pytest.mark.parametrize("rollout", [MANUAL, HALT, ROLLBACK])
def test_a_restart_by_a_bookies_name_waits_for_the_same(rollout: dict[str, Any]) -> None:
    restart = (make.operation(),)

    plan_there = plan(bookies(NEWER, OLD), rollout, operations=restart)
    there, back = plan_there.rollout, decided(bookies(OLD, NEWER), rollout, operations=restart)

    (told,) = plan_there.operations
    assert NO_START in (told.status.message or "")
    assert not is_stopped(there)
    assert is_stopped(back) is (rollout is not ROLLBACK), "nothing goes back by itself where a person ends the pods"


def test_an_operation_that_waits_for_a_release_lets_those_about_others_pass() -> None:
    first, *others = bookies(NEWER, OLD)
    asked = (make.operation("one"), make.operation("two", bookie=LAST, created_ms=make.NOW_MS - 1))
    *others, last = others
    assert last.pod is not None

    found = plan((first, *others, last), HALT, operations=asked)

    assert isinstance(found.rollout.action, StopBookie)
    assert found.rollout.action.bookie == LAST
    assert [one.status.phase for one in found.operations] == [OperationPhase.QUEUED, OperationPhase.RUNNING]


@pytest.mark.parametrize(
    "change",
    [
        {"state": State.STARTING},
        {"state": State.HELD},
        {"formats": ()},
    ],
)
def test_the_word_of_a_bookie_that_does_not_serve_or_says_nothing_counts_for_nothing(change: dict[str, Any]) -> None:
    first, *others = bookies(OLD, OLD)
    others = [bookie(one, OLD, "rev-0") for one in others]
    newest = bookie(others[-1], NEWER, "rev-1")
    assert newest.report is not None
    newest = replace(newest, report=replace(newest.report, **change))

    found = decided((first, *others[:-1], newest), ROLLBACK)

    assert NO_WAY_BACK not in found.halted
    assert found.formats == ""


def test_the_image_decides_and_not_the_revision() -> None:
    """Of another zone's StatefulSet the newest revision has another name; another edit may have the same image."""
    other = [bookie(one, NEWER, "rev-3") for one in make.fleet()[1:]]
    first = bookie(make.fleet()[0], OLD, "rev-0")

    same = decided((first, *other), ROLLBACK, templates=TEMPLATES | {"rev-3": template("bookie:next")})
    unlike = decided((first, *other), ROLLBACK, templates=TEMPLATES | {"rev-3": template("bookie:third")})
    gone = decided((first, *other), ROLLBACK)
    unread = decided((first, *other), ROLLBACK, templates={})

    assert NO_WAY_BACK in same.halted
    assert NO_WAY_BACK in same.formats
    assert [one.formats for one in (unlike, gone, unread)] == [""] * 3


def test_of_several_with_the_image_the_one_made_last_is_asked() -> None:
    """A tag may name another image since."""
    first, *others = make.fleet()
    old = [bookie(one, OLD, "rev-1") for one in others[1:]]
    late = bookie(others[0], NEWER, "rev-1", created_ms=LONG_AGO_MS + 1)

    found = decided((bookie(first, OLD, "rev-0"), late, *old), ROLLBACK)

    assert f"{late.name}, which runs the image" in found.halted


def test_an_edit_with_the_same_image_is_not_concerned() -> None:
    found = decided(bookies(OLD, OLD), ROLLBACK, templates=TEMPLATES | {"rev-0": template("bookie:next", cpu="2")})

    assert is_stopped(found)
    assert found.formats == ""


def test_where_what_a_bookie_has_goes_with_its_pod_nothing_is_compared() -> None:
    first, *others = bookies(NEWER, OLD)
    ephemeral = replace(first, volumes=tuple(replace(one, is_ephemeral=True) for one in first.volumes))

    assert decided((ephemeral, *others)).formats == ""


def test_a_bookie_does_not_speak_for_what_comes_after_itself() -> None:
    """It was made last, and runs that image already: of a tag that names another one since."""
    first, *others = bookies(OLD, NEWER)
    late = bookie(first, OLD, "rev-0", created_ms=LONG_AGO_MS + 1)

    found = decided((late, *others), ROLLBACK, templates=TEMPLATES | {"rev-0": template("bookie:next", cpu="2")})

    assert NO_WAY_BACK in found.halted


def test_who_cannot_have_what_the_spec_says_keeps_nobody_from_it() -> None:
    first, second, *others = make.fleet()
    cases = (
        bookie(first, NEWER, "rev-0"),
        bookie(second, OLD, "rev-0"),
        *(bookie(one, OLD, "rev-1") for one in others),
    )

    found = decided(cases, ROLLBACK)

    assert isinstance(found.action, StopBookie)
    assert found.action.bookie == second.name
    assert found.halted == ""
    assert NO_START in found.formats


@pytest.mark.parametrize(("old", "new"), [(NEWER, OLD), (OLD, NEWER)], ids=["there", "back"])
def test_a_turn_that_has_begun_is_taken_back(old: tuple[DiskFormat, ...], new: tuple[DiskFormat, ...]) -> None:
    first, *others = bookies(old, new)
    refusing = with_formats(first, old, state=State.READ_ONLY, read_only=True, has_turn=True)
    step = RolloutStep(bookie=FIRST, pod_uid="pod-1", begun_at=format_time(make.NOW_MS - 5_000))
    status = {"rollout": RolloutStatus(inputs="new", desired=4, updated=3, step=step)}
    announced = replace(refusing, member=Member(first.bookie_id, has_cookie=True, is_registered=True))

    found = decided((announced, *others), ROLLBACK, status=status)

    assert isinstance(found.action, ResumeBookie)


def test_while_it_is_paused_nothing_is_called_halted() -> None:
    found = decided(bookies(OLD, NEWER), ROLLBACK | {"paused": True})

    assert found.halted == ""
    assert NO_WAY_BACK in found.why


def test_what_goes_back_already_needs_no_way_back_from_there() -> None:
    """The records of the status have it go back; the one that it comes from reads no older format any more."""
    status = {"rollout": RolloutStatus(inputs="new", desired=4, updated=3)}
    cases = bookies((DiskFormat("index", 4, 4, 3),), (DiskFormat("index", 2, 3, 2),))
    strict = seen(cases, ROLLBACK, status=status)
    going = replace(strict, cluster=replace(strict.cluster, said=strict.cluster.spec))

    assert NO_WAY_BACK in fleet.decide(strict).rollout.halted
    assert NO_WAY_BACK not in fleet.decide(going).rollout.halted
    observed = seen(bookies(NEWER, OLD), ROLLBACK)
    assert NO_START in fleet.decide(replace(observed, cluster=going.cluster)).rollout.halted


def on_nodes(cases: tuple[BookieCase, ...]) -> tuple[BookieCase, ...]:
    """The node of the first is drained."""
    first, *others = cases
    first = replace(first, nodes={"node-a": NodeFacts("node-a", "node-uid", drained="cordoned")})
    return (first, *(replace(one, nodes={"node-a": NodeFacts("node-a", "node-uid")}) for one in others))


def with_spec(observed: Observation, **changes: Any) -> Observation:
    spec = observed.cluster.spec.model_copy(update=changes)
    return replace(observed, cluster=replace(observed.cluster, spec=spec))


@pytest.mark.parametrize("on_drain", ["ReadOnlyFirst", "Restart"])
@pytest.mark.parametrize(
    ("old", "new", "words"), [(NEWER, OLD, NO_START), (OLD, NEWER, "")], ids=["would not start", "no way back"]
)
def test_a_drain_keeps_a_bookie_that_would_not_start_elsewhere_and_no_other(
    old: tuple[DiskFormat, ...], new: tuple[DiskFormat, ...], words: str, on_drain: str
) -> None:
    observed = seen(on_nodes(bookies(old, new)), ROLLBACK)

    found = fleet.decide(with_spec(observed, disruption=Disruption(on_drain=on_drain))).eviction

    if on_drain == "Restart" and not words:
        assert (found.max_unavailable, found.status) == (1, None)
        return
    assert (found.max_unavailable, found.evictable) == (0, "")
    assert isinstance(found.action, FlushBookie) is not bool(words)
    assert found.status is not None
    assert words in (found.status.waiting_for or "")


@pytest.mark.parametrize("on_drain", ["ReadOnlyFirst", "Restart"])
def test_beside_it_another_one_of_a_drained_node_has_its_turn(on_drain: str) -> None:
    first, *others = on_nodes(bookies(NEWER, OLD))
    *others, last = others
    last = replace(last, nodes={"node-a": NodeFacts("node-a", "node-uid", drained="cordoned")})
    observed = seen((first, *others, last), MANUAL)

    found = fleet.decide(with_spec(observed, disruption=Disruption(on_drain=on_drain))).eviction

    assert isinstance(found.action, FlushBookie)
    assert found.action.bookie == LAST


@pytest.mark.parametrize("change", ["paused", "no right to read nodes"])
def test_where_nobody_is_moved_off_a_node_the_budget_is_none_and_says_who_would_not_start(change: str) -> None:
    observed = seen(on_nodes(bookies(NEWER, OLD)), MANUAL)
    if change == "paused":
        observed = with_spec(observed, lifecycle=observed.cluster.spec.lifecycle.model_copy(update={"paused": True}))
    else:
        observed = replace(observed, can_read_nodes=False)

    found = fleet.decide(observed).eviction

    assert (found.max_unavailable, found.evictable, found.action) == (0, "", None)
    assert found.status is not None
    assert found.status.waiting == (FIRST,)
    assert NO_START in (found.status.waiting_for or "")


@pytest.mark.parametrize("on_drain", ["ReadOnlyFirst", "Restart"])
def test_while_no_node_is_drained_it_is_told_and_nobody_waits(on_drain: str) -> None:
    observed = seen(bookies(NEWER, OLD), MANUAL)

    found = fleet.decide(with_spec(observed, disruption=Disruption(on_drain=on_drain))).eviction

    assert found.max_unavailable == 0
    assert found.status is not None
    assert NO_START in (found.status.waiting_for or "")
    assert found.status.waiting == ()


def test_so_it_is_in_the_pass_in_which_a_turn_of_before_has_ended() -> None:
    """The turn was stored while the operator saw Nodes; its bookie takes writes again."""
    cases = tuple(with_formats(one, of(one), capabilities=("turn",)) for one in bookies(NEWER, OLD))
    last = cases[-1].pod
    assert last is not None
    begun_at = format_time(make.NOW_MS - 5_000)
    turn = EvictionTurn(bookie=cases[-1].name, pod_uid=last.uid, node=last.node, begun_at=begun_at)

    found = [
        fleet.decide(replace(seen(cases, MANUAL, status=status), can_read_nodes=False)).eviction
        for status in ({"eviction": EvictionStatus(turn=turn)}, {})
    ]

    assert [one.max_unavailable for one in found] == [0, 0]


def test_the_pass_that_applies_another_image_closes_the_budget_before() -> None:
    """Who evicts a pod a moment later does not wait for the next pass."""
    same = TEMPLATES | {"rev-1": template("bookie:before")}
    others = [bookie(one, OLD, "rev-2") for one in make.fleet()[1:]]
    first = bookie(make.fleet()[0], NEWER, "rev-1")
    templates = TEMPLATES | {"rev-1": template("bookie:next"), "rev-2": template("bookie:older")}
    cases = (first, *others)

    for image, expected in (("bookie:older", 0), ("bookie:next", 1)):
        observed = replace(seen(cases, MANUAL, templates=templates), image=image)
        assert fleet.decide(observed).eviction.max_unavailable == expected, same


def remembered(written: int, uid: str = "") -> tuple[BookieCase, dict[str, Any]]:
    """FIRST, and a status by which it had written this index format before it was away."""
    first = make.fleet()[0]
    volumes = tuple(
        VolumeStatus(
            name=one.name,
            role=one.role,
            claim=one.claim_name,
            pvc_uid=uid or (one.claim.uid if one.claim is not None else None),
        )
        for one in first.volumes
    )
    entry = BookieStatus(
        name=FIRST,
        bookie_id=first.bookie_id,
        pool=first.pool,
        state="Serving",
        verdict="Healthy",
        reason="Serving",
        since=format_time(LONG_AGO_MS),
        away_since=format_time(LONG_AGO_MS),
        incarnation=1,
        has_lived=True,
        volumes=volumes,
        written=(WrittenFormat(name="index", format=written),),
    )
    return first, {"bookies": (entry,)}


@pytest.mark.parametrize(("written", "uid", "is_told"), [(4, "", True), (3, "", False), (4, "another claim", False)])
def test_what_it_wrote_is_remembered_while_it_says_nothing_and_has_the_same_volumes(
    written: int, uid: str, is_told: bool
) -> None:
    first, status = remembered(written, uid)
    assert first.pod is not None
    silent = replace(first, report=None, pod=replace(first.pod, revision="rev-0", inputs="v1-older"))
    others = bookies(OLD, OLD)[1:]

    found = plan((silent, *others), HALT, status=status)

    one = next(one for one in found.fleet if one.case.name == FIRST)
    assert (NO_START in one.message) is is_told
    assert found.eviction.max_unavailable == (0 if is_told else 1)


def test_the_word_of_a_bookie_that_only_begins_is_not_what_is_on_its_volumes() -> None:
    """It answers for a moment with the older program, and then refuses its volumes."""
    first, status = remembered(4)
    begins = with_formats(first, OLD, state=State.STARTING, data_port_open=False)
    assert begins.pod is not None
    begins = replace(begins, pod=replace(begins.pod, revision="rev-1", is_ready=False))

    found = plan((begins, *bookies(OLD, OLD)[1:]), HALT, status=status)

    one = next(one for one in found.fleet if one.case.name == FIRST)
    assert NO_START in one.message
    assert formats.written(one) == {"index": 4}


def test_who_is_down_is_not_replaced_by_a_pod_that_would_not_start_either() -> None:
    first, status = remembered(4)
    assert first.pod is not None
    pod = replace(first.pod, revision="rev-0", inputs="v1-older", is_ready=False, problem="CrashLoopBackOff")
    pod = replace(pod, is_bookie_running=False, created_ms=LONG_AGO_MS)
    down = replace(first, report=None, pod=pod)
    others = bookies(OLD, OLD)[1:]

    kept = decided((down, *others), HALT, status=status)
    (entry,) = status["bookies"]
    replaced = decided((down, *others), HALT, status={"bookies": (entry.model_copy(update={"written": ()}),)})

    assert isinstance(replaced.action, StopBookie)
    assert kept.action is None
    assert NO_START in kept.halted


@pytest.mark.parametrize(("kind", "waits"), [("Fence", False), ("Restart", True)], ids=["out", "back"])
def test_only_who_is_to_come_back_waits_for_a_release_that_reads_its_volumes(kind: str, waits: bool) -> None:
    first, *others = bookies(NEWER, OLD)
    first = with_formats(first, NEWER, capabilities=("turn", "aside"))
    asked = make.operation("asked", type=kind, reason="its disk clicks")

    found = plan((first, *others), MANUAL, operations=(asked,))

    (told,) = found.operations
    assert is_stopped(found.rollout) is not waits
    assert (NO_START in (told.status.message or "")) is waits, told.status
    assert (told.status.phase is OperationPhase.QUEUED) is waits


def test_a_fence_of_who_would_not_start_goes_on_to_its_end() -> None:
    first, *others = bookies(NEWER, OLD)
    refusing = with_formats(
        first, NEWER, state=State.READ_ONLY, read_only=True, has_turn=True, capabilities=("turn", "aside")
    )
    announced = replace(refusing, member=Member(first.bookie_id, has_cookie=True, is_registered=True))
    step = RolloutStep(bookie=FIRST, pod_uid="pod-1", begun_at=format_time(make.NOW_MS - 5_000))
    status = {"rollout": RolloutStatus(inputs="new", desired=4, updated=3, step=step)}
    asked = make.operation("asked", type="Fence", reason="its disk clicks")

    out = decided((announced, *others), HALT, status=status, operations=(asked,))
    back = decided((announced, *others), HALT, status=status, operations=(make.operation(),))

    assert isinstance(out.action, StopBookie)
    assert (out.action.may_delete, out.action.aside is not None) == (True, True)
    assert isinstance(back.action, ResumeBookie)
