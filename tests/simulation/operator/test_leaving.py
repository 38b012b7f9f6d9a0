"""Bookies leave alive and by proof: `replicas` lowered, a zone taken away, raised again at any moment, typed wrong
(spec/operator.md#J1 to J10)."""

import asyncio
import random
from pathlib import Path
from typing import NoReturn

import pytest

import operator_world_support as worlds
from bookie.ports.admin import State
from bookie_operator.crash import CrashPoint
from bookie_operator.gateways.bookies import SCAN_DEADLINE_S
from bookie_operator.model import names
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.plan.departure.retiring import FORGET_SETTLES_MS
from bookie_operator.reconcile import Reconciler
from operator_world_support import Crashed, World

LAST = "ledgers-zone-a-1"  # of four: who leaves
ITS_ID = "data.ledgers.zone-a.1"
FAST = {"proofInterval": "5s"}
PASSES = 60
STRIDE = 5  # of the deaths at each write: so many tests share them


def run(world: World, operator: Reconciler | None = None, *, passes: int = PASSES) -> None:
    asyncio.run(world.run(operator or world.operator(), passes=passes))


def leaving(world: World, name: str = LAST) -> LeavingStatus | None:
    entry = world.status().bookie(name)
    return entry.leaving if entry is not None else None


def said(world: World, kind: str) -> tuple[str, str, str]:
    found = world.status().condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def names_of(world: World, kind: str) -> list[str]:
    return sorted(one["metadata"]["name"] for one in world.of_kind(kind))


def until(world: World, operator: Reconciler, state: Departure, *, name: str = LAST) -> None:
    for _ in range(PASSES):
        found = leaving(world, name)
        if found is not None and found.state is state:
            return
        run(world, operator, passes=1)
    raise AssertionError(f"{name} never was {state.value}: {leaving(world, name)}")


@pytest.fixture
def busy(world: World) -> World:
    """Four bookies with entries on all of them."""
    world.edit(scaleDown=FAST)
    world.write(300, random.Random(1))
    run(world, passes=3)
    return world


def check(world: World) -> None:
    assert (world.wrong, world.lost_entries(), world.thin_entries(), world.past_tolerance) == ([], [], [], [])
    assert world.uncounted() == []


def die(_: int) -> NoReturn:
    raise Crashed


def with_writers(world: World, operator: Reconciler, *, passes: int, seed: int = 3) -> None:
    """Pass after pass, while writers go on."""
    rng = random.Random(seed)
    for _ in range(passes):
        run(world, operator, passes=1)
        world.write(3, rng)


def test_a_bookie_leaves_when_the_number_is_lowered_and_nothing_is_lost(busy: World) -> None:
    assert busy.naming(ITS_ID)

    busy.edit(replicas=3)
    with_writers(busy, busy.operator(), passes=PASSES)

    check(busy)
    status = busy.status()
    assert (status.summary, status.replicas, busy.forgotten) == ("3/3", 3, [ITS_ID])
    assert busy.is_quiet()
    assert said(busy, "Reconciling")[:2] == ("False", "Done")
    assert [(one.name, one.state) for one in status.orphans] == [(LAST, "Retired")]
    assert [said(busy, kind)[0] for kind in ("Stalled", "Degraded", "DataAtRisk", "StorageHealthy")] == [
        "False", "False", "False", "True"
    ]  # fmt: skip
    told = [one for one in busy.events() if one.startswith(("Drain", "BookieD", "BookieR"))]
    assert [one for one in told if one != "DrainProgress"] == ["DrainStarted", "BookieDrained", "BookieRetired"]
    assert told.count("DrainProgress") > 1


def test_the_proof_is_by_two_bookies_apart_and_a_third_looks_before_the_cookie_goes(busy: World) -> None:
    busy.edit(replicas=3)
    run(busy)

    first, second, third = busy.asked
    found = leaving(busy)
    assert found is not None
    assert {one[1] for one in busy.asked} == {ITS_ID}
    assert LAST not in {first[0], second[0], third[0]}
    assert first[0] != second[0]
    assert second[2] - first[2] >= 5_000
    assert [(look.by, look.is_clean, look.instance_id) for look in found.looks] == [
        (reader, True, "instance") for reader, _, _ in busy.asked
    ]


def test_under_retain_the_claims_stay_and_say_that_their_bookie_left(busy: World) -> None:
    before = names_of(busy, "PersistentVolumeClaim")

    busy.edit(replicas=3)
    run(busy)
    busy.now_ms += 400 * 24 * 3_600_000
    run(busy, passes=5)

    assert names_of(busy, "PersistentVolumeClaim") == before
    marked = [
        one["metadata"]["name"]
        for one in busy.of_kind("PersistentVolumeClaim")
        if names.RETIRED_AT in one["metadata"].get("annotations", {})
    ]
    assert sorted(marked) == [f"{volume}-{LAST}" for volume in ("index", "journal", "ledgers")]


@pytest.mark.slow
def test_when_it_is_done_nothing_is_written_any_more(busy: World) -> None:
    busy.edit(replicas=3)
    operator = busy.operator()
    run(busy, operator)
    busy.writes.clear()

    run(busy, operator, passes=20)

    assert busy.writes == []


@pytest.mark.slow
def test_raised_over_kept_claims_the_operator_says_what_to_do_and_goes_on_when_they_are_gone(busy: World) -> None:
    busy.edit(replicas=3)
    operator = busy.operator()
    run(busy, operator)

    busy.edit(replicas=4)
    run(busy, operator, passes=20)
    stalled, pods = said(busy, "Stalled"), names_of(busy, "Pod")
    for claim in [one for one in names_of(busy, "PersistentVolumeClaim") if one.endswith(LAST)]:
        del busy.objects[("PersistentVolumeClaim", claim)]
    busy.disks.pop(ITS_ID)
    run(busy, operator, passes=20)

    assert stalled[:2] == ("True", "RetiredClaims")
    assert f"delete pvc journal-{LAST} ledgers-{LAST} index-{LAST}" in stalled[2]
    assert LAST not in pods
    assert busy.is_quiet(), busy.status()
    assert (busy.status().summary, busy.cookies[ITS_ID]) == ("4/4", [0, 2])
    check(busy)


@pytest.mark.slow
def test_under_delete_the_claims_go_after_a_while_and_at_once_when_the_bookie_is_wanted_again(busy: World) -> None:
    storage = busy.spec()["storage"] | {"retention": {"onScaleDown": "Delete", "keepFor": "1h"}}
    busy.edit(replicas=3, storage=storage)
    operator = busy.operator()
    run(busy, operator)
    kept = [one for one in names_of(busy, "PersistentVolumeClaim") if one.endswith(LAST)]

    busy.edit(replicas=4)
    run(busy, operator, passes=20)

    assert len(kept) == 3
    assert busy.is_quiet(), busy.status()
    assert busy.cookies[ITS_ID] == [0, 2]
    check(busy)

    busy.edit(replicas=3)
    run(busy, operator)
    busy.now_ms += 3_600_000
    run(busy, operator, passes=5)

    assert [one for one in names_of(busy, "PersistentVolumeClaim") if one.endswith(LAST)] == []
    assert busy.status().orphans == ()
    check(busy)


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
@pytest.mark.parametrize(
    "state", [Departure.LEAVING, Departure.DRAINING, Departure.DRAINED, Departure.RETIRING], ids=lambda one: one.value
)
def test_raised_again_in_any_state_before_its_cookie_goes_it_stays_with_all_its_data(
    busy: World, state: Departure, policy: str
) -> None:
    storage = busy.spec()["storage"] | {"retention": {"onScaleDown": policy, "keepFor": "0s"}}
    busy.drain_rate = 20
    operator = busy.operator()
    if state is Departure.LEAVING:
        busy.members_problem = "the metadata store does not answer"
    before = busy.cookies[ITS_ID]
    busy.edit(replicas=3, storage=storage)
    until(busy, operator, state)
    if state is Departure.RETIRING:
        run(busy, operator, passes=1)

    busy.edit(replicas=4)
    busy.members_problem = ""
    with_writers(busy, operator, passes=30)

    assert busy.is_quiet(), busy.status()
    assert (leaving(busy), busy.cookies[ITS_ID], busy.forgotten) == (None, before, [])
    assert busy.bookie(LAST).is_draining is False
    assert ("DrainCancelled" in busy.events()) == (state is not Departure.LEAVING)
    check(busy)


@pytest.mark.slow
def test_raised_while_a_peer_may_still_forget_it_nobody_comes_back_before_that_is_known(busy: World) -> None:
    busy.forget_problem = "the record is locked"
    operator = busy.operator()
    busy.edit(replicas=3)
    until(busy, operator, Departure.FORGETTING)

    busy.edit(replicas=4)
    run(busy, operator, passes=20)
    early = names_of(busy, "Pod")
    busy.now_ms += FORGET_SETTLES_MS
    run(busy, operator, passes=20)

    assert LAST not in early
    assert busy.is_quiet(), busy.status()
    assert busy.forgotten == []
    check(busy)


def test_an_order_to_forget_outlasts_the_longest_pass() -> None:
    assert FORGET_SETTLES_MS > 2 * SCAN_DEADLINE_S * 1_000, "a look and an order, from the start of the pass"


def test_readers_of_another_store_prove_nothing(busy: World) -> None:
    operator = busy.operator()
    busy.edit(replicas=3)
    until(busy, operator, Departure.DRAINING)
    busy.stores = {one.name: "another" for one in busy.bookies.values() if one.name != LAST}
    run(busy, operator, passes=20)

    found = leaving(busy)
    assert found is not None
    assert (found.state, found.looks, busy.asked) == (Departure.DRAINING, (), [])


def test_a_cancel_ends_also_where_a_person_keeps_the_bookie_read_only(busy: World) -> None:
    operator = busy.operator()
    busy.read_only.add(LAST)
    busy.edit(replicas=3)
    until(busy, operator, Departure.DRAINED)
    busy.edit(replicas=4)
    run(busy, operator, passes=1)
    first = leaving(busy)
    run(busy, operator, passes=10)

    assert first is not None
    assert first.state is Departure.DRAINING, "near its end no more"
    assert leaving(busy) is None
    assert not busy.bookie(LAST).is_draining


def test_raised_while_the_node_of_a_drained_bookie_is_gone_its_state_goes(busy: World) -> None:
    operator = busy.operator()
    busy.edit(replicas=3)
    until(busy, operator, Departure.DRAINED)
    busy.kill(LAST)
    busy.over_quota = "ledgers-zone-a"
    busy.edit(replicas=4)
    run(busy, operator, passes=5)

    assert LAST not in names_of(busy, "Pod")
    assert leaving(busy) is None


@pytest.mark.slow
def test_forgetting_goes_on_after_its_zone_went_and_its_cluster_was_applied_again(busy: World) -> None:
    operator = busy.operator()
    busy.edit(storage=busy.spec()["storage"] | {"journalWriteData": True})
    run(busy, operator, passes=30)
    busy.forget_problem = "the record is locked"
    busy.edit(zones=[{"name": "zone-a"}, {"name": "zone-b"}])
    until(busy, operator, Departure.FORGETTING, name="ledgers-zone-c-0")
    busy.delete_and_apply()
    run(busy, operator, passes=10)
    busy.forget_problem = ""
    run(busy, busy.operator(), passes=100)

    assert busy.forgotten == ["data.ledgers.zone-c.0"]


def test_a_typing_error_is_undone_at_once_and_leaves_nothing_behind(busy: World) -> None:
    before = {kind: names_of(busy, kind) for kind in ("Pod", "PersistentVolumeClaim")}
    operator = busy.operator()
    busy.is_scheduling = False
    busy.edit(replicas=9)
    run(busy, operator, passes=3)
    pending = set(names_of(busy, "Pod")) - set(before["Pod"])

    busy.edit(replicas=4)
    run(busy, operator, passes=8)

    assert len(pending) == 5
    assert {kind: names_of(busy, kind) for kind in before} == before
    assert busy.is_quiet(), busy.status()
    assert (busy.status().orphans, busy.forgotten, busy.asked) == ((), [], [])
    assert {pool.name: pool.desired for pool in busy.status().pools} == {"zone-a": 2, "zone-b": 1, "zone-c": 1}
    check(busy)


def test_a_typing_error_is_not_undone_while_nobody_can_say_who_has_a_cookie(busy: World) -> None:
    operator = busy.operator()
    busy.is_scheduling = False
    busy.edit(replicas=6)
    run(busy, operator, passes=3)
    before = names_of(busy, "PersistentVolumeClaim")

    busy.members_problem = "the metadata store does not answer"
    busy.edit(replicas=4)
    run(busy, operator, passes=10)

    assert names_of(busy, "PersistentVolumeClaim") == before
    assert len(names_of(busy, "Pod")) == 6


def test_claims_of_a_new_bookie_stay_while_its_process_may_run_unreached(busy: World) -> None:
    """Its pod runs on a node, reaches neither operator nor metadata store, and goes without its kubelet's word."""
    new, operator = "ledgers-zone-b-1", busy.operator()
    busy.cut_off.add(new)
    busy.edit(replicas=5)
    run(busy, operator, passes=8)
    assert new in names_of(busy, "Pod")

    busy.edit(replicas=4)
    run(busy, operator, passes=15)

    assert new not in names_of(busy, "Pod")
    assert len([one for one in names_of(busy, "PersistentVolumeClaim") if one.endswith(new)]) == 3
    found = leaving(busy, new)
    assert found is not None
    assert "without its kubelet's word" in (found.waiting_for or "")


@pytest.mark.slow
def test_a_bookie_that_began_just_before_it_was_taken_for_new_leaves_by_proof(busy: World) -> None:
    """Its pod starts between the look and the lower number, and takes an entry."""
    operator = busy.operator()
    busy.is_scheduling = False
    busy.edit(replicas=5)
    run(busy, operator, passes=2)
    busy.edit(replicas=4)
    run(busy, operator, passes=1)
    late = "data.ledgers.zone-b.1"
    busy.cookies[late] = [0, 1]
    volumes = ("journal", "ledgers", "index")
    busy.contents[late] = dict.fromkeys(volumes, worlds.Contents.VALID)
    busy.claim_uids[late] = {volume: busy.claim_uid(volume, "ledgers-zone-b-1") for volume in volumes}
    busy.disks[late] = {0}
    busy.entries[0] = (late, *busy.entries[0][:2])
    busy.is_scheduling = True

    run(busy, operator, passes=90)

    assert busy.forgotten == [late]
    assert busy.status().summary == "4/4"
    check(busy)


def test_a_record_that_nobody_can_read_stops_everything_before_the_proof(busy: World) -> None:
    busy.unreadable = 1
    busy.edit(replicas=3)
    run(busy)

    found = leaving(busy)
    assert found is not None
    assert found.state is Departure.DRAINING
    assert "nobody can read" in (found.waiting_for or "")
    assert busy.bookie(LAST).is_draining


@pytest.mark.slow
def test_one_that_is_named_again_after_its_pod_went_comes_back_and_leaves_anew(busy: World) -> None:
    operator = busy.operator()
    busy.edit(replicas=3)
    until(busy, operator, Departure.RETIRING)
    run(busy, operator, passes=1)
    busy.entries[7] = (ITS_ID, *busy.entries[7][:2])

    run(busy, operator, passes=120)

    assert busy.forgotten == [ITS_ID]
    assert busy.events().count("BookieDrained") == 2
    check(busy)


def test_bookies_of_a_zone_that_is_taken_away_leave_and_its_stateful_set_goes_last(busy: World) -> None:
    busy.edit(
        zones=[{"name": "zone-a"}, {"name": "zone-b"}], storage=busy.spec()["storage"] | {"journalWriteData": True}
    )
    with_writers(busy, busy.operator(), passes=PASSES)

    check(busy)
    assert busy.is_quiet(), busy.status()
    assert busy.forgotten == ["data.ledgers.zone-c.0"]
    assert names_of(busy, "StatefulSet") == ["ledgers-zone-a", "ledgers-zone-b"]
    assert [pool.name for pool in busy.status().pools] == ["zone-a", "zone-b"]


def test_a_fleet_that_is_too_small_keeps_its_bookie_and_says_so(busy: World) -> None:
    busy.kill("ledgers-zone-b-0")
    busy.over_quota = "ledgers-zone-b"
    busy.edit(replicas=3)
    run(busy, passes=10)

    found = leaving(busy)
    assert found is not None
    assert found.state is Departure.LEAVING
    assert found.waiting_for == "2 other bookies take writes, and an ensemble needs 3"
    assert busy.bookie(LAST).state is worlds.State.SERVING


@pytest.mark.slow
def test_what_the_spec_says_of_a_drain_reaches_the_one_that_is_under_way(busy: World) -> None:
    """Ledgers of dead writers never close: a drain that waits for them ends only when the edit reaches it."""
    busy.abandoned = 3
    busy.edit(replicas=3)
    operator = busy.operator()
    run(busy, operator)
    stuck = leaving(busy)
    assert stuck is not None
    assert (stuck.state, stuck.open_ledgers) == (Departure.DRAINING, 3)
    assert "openLedgers: Recover" in (stuck.waiting_for or "")
    orders = busy.writes.count(f"drain/{LAST}")

    busy.edit(scaleDown=FAST | {"openLedgers": "Recover", "copyRate": "1Mi"})
    run(busy, operator)

    assert LAST not in busy.bookies
    assert orders == 1, "a drain that is as the spec says hears nothing again"
    assert busy.writes.count(f"drain/{LAST}") == 2
    check(busy)


@pytest.mark.slow
def test_a_look_that_began_before_the_drain_or_before_the_first_look_ended_proves_nothing(busy: World) -> None:
    busy.look_age_ms = 10_000_000
    busy.edit(replicas=3)
    operator = busy.operator()
    run(busy, operator)
    stuck = leaving(busy)
    assert stuck is not None
    assert (stuck.state, stuck.looks) == (Departure.DRAINING, ())

    busy.look_age_ms = 0
    for _ in range(PASSES):
        run(busy, operator, passes=1)
        stuck = leaving(busy)
        assert stuck is not None
        if stuck.looks:
            break
    busy.look_age_ms = 10_000_000
    run(busy, operator)
    stuck = leaving(busy)
    assert stuck is not None
    assert (stuck.state, len(stuck.looks)) == (Departure.DRAINING, 1)

    busy.look_age_ms = 0
    run(busy, operator)
    assert LAST not in busy.bookies
    check(busy)


@pytest.mark.slow
def test_a_heal_goes_first(busy: World) -> None:
    operator = busy.operator()
    busy.edit(replicas=3)
    until(busy, operator, Departure.DRAINING)
    busy.lose("ledgers-zone-b-0")
    run(busy, operator, passes=150)

    check(busy)
    assert [one.result for one in busy.status().history] == ["Healed"]
    assert busy.forgotten == [ITS_ID]


def test_between_proof_and_end_nobody_may_evict_and_no_other_bookie_is_stopped(busy: World) -> None:
    operator = busy.operator()
    busy.edit(rollout={"strategy": "Automatic", "soakSeconds": 3})
    run(busy, operator, passes=3)
    stops: list[str] = []
    busy.on_stop = stops.append
    busy.edit(replicas=3)
    until(busy, operator, Departure.DRAINED)
    budgets = set()
    busy.edit(image="bookie:next")
    while (found := leaving(busy)) is not None and found.state.is_near_its_end:
        assert stops == []
        run(busy, operator, passes=1)
        budgets.add(busy.objects[("PodDisruptionBudget", "ledgers-bookies")]["spec"]["maxUnavailable"])
    run(busy, operator)

    assert budgets <= {0, 1}
    assert 0 in budgets
    assert sorted(stops) == ["ledgers-zone-a-0", "ledgers-zone-b-0", "ledgers-zone-c-0"]
    check(busy)


@pytest.mark.slow
def test_an_autoscaler_that_goes_up_and_down_loses_nothing(busy: World) -> None:
    storage = busy.spec()["storage"] | {"retention": {"onScaleDown": "Delete", "keepFor": "30s"}}
    busy.edit(storage=storage)
    operator, rng = busy.operator(), random.Random(11)
    for _ in range(25):
        busy.edit(replicas=rng.randrange(3, 7))
        with_writers(busy, operator, passes=rng.randrange(1, 25), seed=rng.randrange(1_000))
        check(busy)
    busy.edit(replicas=4)
    with_writers(busy, operator, passes=200)

    check(busy)
    assert busy.is_quiet(), busy.status()
    assert busy.status().summary == "4/4"


@pytest.mark.parametrize("share", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in range(1, STRIDE))])
def test_after_a_death_at_any_write_the_bookie_leaves_all_the_same(busy: World, tmp_path: Path, share: int) -> None:
    """Every write of the whole story, with writers; the operator that follows has watched nothing."""
    after, ended = 1 + share, False
    while not ended:
        world = worlds.clone(busy)
        world.step_ms = 4_000
        storage = world.spec()["storage"] | {"retention": {"onScaleDown": "Delete", "keepFor": "10s"}}
        world.edit(replicas=3, storage=storage)
        operator, rng = world.operator(CrashPoint(after, str(tmp_path), die)), random.Random(after)
        crashes = 0
        for _ in range(200):
            try:
                asyncio.run(operator.reconcile(worlds.KEY))
            except Crashed:
                crashes += 1
                operator = world.operator(has_watched=False)
            world.settle()
            world.write(2, rng)
            if not [one for one in names_of(world, "PersistentVolumeClaim") if one.endswith(LAST)]:
                break
        check(world)
        run(world, operator, passes=2)
        assert (world.forgotten, world.status().summary) == ([ITS_ID], "3/3"), (after, leaving(world))
        assert not [one for one in names_of(world, "PersistentVolumeClaim") if one.endswith(LAST)], after
        ended = not crashes
        after += STRIDE
    assert after > 20


def test_no_claim_is_deleted_while_the_record_of_it_is_refused(busy: World) -> None:
    """spec/operator.md#Y2: the state Reclaimed would be in a status alone, which goes with its resource."""
    operator = busy.operator()
    busy.edit(replicas=3)
    run(busy, operator)
    before = names_of(busy, "PersistentVolumeClaim")
    busy.invalid = "ConfigMap"
    busy.edit(storage=busy.spec()["storage"] | {"retention": {"onScaleDown": "Delete", "keepFor": "0s"}})
    run(busy, operator, passes=5)
    meanwhile = names_of(busy, "PersistentVolumeClaim")

    busy.invalid = ""
    run(busy, operator, passes=5)

    assert meanwhile == before
    assert len(names_of(busy, "PersistentVolumeClaim")) == len(before) - 3
    check(busy)


def test_a_drain_whose_status_and_record_were_lost_is_taken_back_when_the_bookie_is_to_stay(busy: World) -> None:
    operator = busy.operator()
    busy.drain_rate = 0
    busy.edit(replicas=3)
    until(busy, operator, Departure.DRAINING)
    run(busy, operator, passes=2)
    assert busy.bookie(LAST).is_draining

    busy.delete_and_apply(is_orphaning=True, replicas=4)
    busy.objects.pop(("ConfigMap", "ledgers-record"))
    run(busy, passes=12)

    assert not busy.bookie(LAST).is_draining
    assert leaving(busy) is None
    assert busy.is_quiet(), busy.status()
    check(busy)


def test_a_drain_that_a_person_began_is_his_to_cancel(busy: World) -> None:
    by_hand = busy.bookie(LAST)
    by_hand.is_draining, by_hand.state = True, State.READ_ONLY
    busy.writes.clear()

    run(busy, passes=5)

    assert by_hand.is_draining
    assert leaving(busy) is None
    assert not [one for one in busy.writes if one.startswith("cancel")]


def test_a_bookie_that_was_wanted_for_a_moment_is_not_forgotten_by_one_look(busy: World) -> None:
    """spec/operator.md#J5: its pod could not come back (paused), and its proof was void all the same."""
    operator = busy.operator()
    busy.edit(replicas=3)
    until(busy, operator, Departure.RETIRING)
    run(busy, operator, passes=1)
    assert ("Pod", LAST) not in busy.objects
    busy.edit(replicas=4, lifecycle={"paused": True})
    run(busy, operator, passes=3)
    assert (busy.forgotten, ("Pod", LAST) in busy.objects) == ([], False)
    busy.asked.clear()

    busy.edit(replicas=3, lifecycle={})
    run(busy, operator, passes=PASSES)

    assert busy.forgotten == [ITS_ID]
    assert len(busy.asked) >= 3, "the whole proof anew"
    check(busy)
