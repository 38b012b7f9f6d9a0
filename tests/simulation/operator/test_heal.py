"""The operator's driver against a small world: it builds, heals, and survives its own death after any write."""

import asyncio
from pathlib import Path
from typing import NoReturn

import pytest

import operator_world_support as worlds
from bookie.ports.admin import OPERATOR_EPOCH_MAX, MountProof, State
from bookie_operator.crash import CrashPoint
from bookie_operator.execute.hand import LostLease
from bookie_operator.gateways.kube import KubeError
from bookie_operator.status import conditions
from operator_world_support import Crashed, World

LOST = "ledgers-zone-b-0"
PASSES = 30  # seconds; a heal takes about fifteen
DAY_MS = 24 * 3_600_000


def die(_: int) -> NoReturn:
    raise Crashed


def test_a_cluster_comes_from_nothing_to_service(world: World) -> None:
    assert world.status().summary == "4/4"
    assert all(volume.recorded is not None for one in world.status().bookies for volume in one.volumes)


def test_the_generation_is_in_the_status_before_any_child_exists() -> None:
    world = worlds.world()

    asyncio.run(world.run(world.operator(), passes=1))

    assert world.writes[0] == "BookieCluster/ledgers/status"


def test_a_quiet_cluster_causes_no_write(world: World) -> None:
    world.writes.clear()

    asyncio.run(world.run(world.operator(), passes=1))  # a new operator writes its epoch, once
    first = list(world.writes)
    asyncio.run(world.run(world.operator(), passes=0))
    operator = world.operator()
    asyncio.run(world.run(operator, passes=1))
    world.writes.clear()
    asyncio.run(world.run(operator, passes=5))

    assert first == ["BookieCluster/ledgers/status"]
    assert world.writes == []


def test_a_bookie_that_lost_its_volumes_heals_under_one_grant(world: World) -> None:
    world.lose(LOST)
    world.writes.clear()

    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))

    assert world.is_quiet()
    assert len(world.accepted) == 1
    assert world.cookies["data.ledgers.zone-b.0"] == [1, 2]
    entry = world.status().bookie(LOST)
    assert entry is not None
    assert {volume.recorded.incarnation for volume in entry.volumes if volume.recorded} == {2}
    assert [one.result for one in world.status().history] == ["Healed"]


def test_the_disruption_budget_is_closed_before_the_grant_and_open_after_the_repair(world: World) -> None:
    budget = "PodDisruptionBudget/ledgers-bookies"
    world.lose(LOST)
    world.writes.clear()

    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))

    assert world.writes.index(budget) < world.writes.index(f"grant/{LOST}")
    assert world.writes.count(budget) == 2
    assert world.objects[("PodDisruptionBudget", "ledgers-bookies")]["spec"]["maxUnavailable"] == 1


def test_the_story_is_told_in_events(world: World) -> None:
    world.lose(LOST)

    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))

    told = list(dict.fromkeys(reason for reason in world.events() if reason != "RepairProgress"))
    assert told == [
        "VolumesLost",
        "VolumeIdentityChanged",
        "EmptyVolumeSuspected",
        "RegenerationGranted",
        "FencingCompleted",
        "CookieRegenerated",
        "RepairStarted",
        "RepairCompleted",
    ]


def test_a_loss_that_an_operator_died_before_telling_is_told_by_the_next_one_and_once(
    world: World, tmp_path: Path
) -> None:
    world.bookie(LOST).state = worlds.State.HELD
    crash = CrashPoint(1, str(tmp_path), die)  # right after the status, before any event

    crashes = asyncio.run(world.run(world.operator(crash), passes=4, crash=crash))
    for _ in range(3):
        asyncio.run(world.run(world.operator(), passes=2))

    assert crashes == 1
    assert world.events().count("BookieHeld") == 1


def test_a_bookie_that_begins_to_serve_while_it_is_looked_at_warns_nobody() -> None:
    """The cookie was read before it was made, and the volumes after: seen on a real cluster, for every new bookie."""
    world = worlds.world()
    asyncio.run(world.run(world.operator(), passes=2))
    world.overtaken = set(world.cookies)
    assert world.overtaken

    asyncio.run(world.run(world.operator(), passes=8))

    assert world.overtaken == set()
    assert world.is_quiet()
    assert "BookieHeld" not in world.events()


def test_the_claims_carry_the_new_life(world: World) -> None:
    world.lose(LOST)

    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))

    for volume in ("journal", "ledgers", "index"):
        claim = world.objects[("PersistentVolumeClaim", f"{volume}-{LOST}")]["metadata"]
        assert claim["annotations"]["bookie.dev/incarnation"] == "2"
        assert claim["annotations"]["bookie.dev/claim-uid"] == claim["uid"]


def writes_of_a_heal(built: World) -> int:
    world = worlds.clone(built)
    world.lose(LOST)
    world.writes.clear()
    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))
    return len(world.writes)


@pytest.mark.slow
def test_a_crash_after_any_write_of_the_heal_converges(built: World, tmp_path: Path) -> None:
    count = writes_of_a_heal(built)
    assert count > 10

    for after in range(1, count + 1):
        world = worlds.clone(built)
        world.lose(LOST)
        world.step_ms = 10_000  # an operator that did not see the pod end waits for what its node proves
        crash = CrashPoint(after, str(tmp_path), die)
        crashes = asyncio.run(world.run(world.operator(crash), passes=PASSES + 10, crash=crash, until_quiet=True))

        assert crashes == 1, f"write {after} was not reached"
        assert world.is_quiet(), f"crash after write {after}: {world.status().bookies}"
        assert len(world.accepted) == 1, f"crash after write {after}: {world.accepted}"
        assert world.cookies["data.ledgers.zone-b.0"] == [1, 2]
        assert [one.result for one in world.status().history] == ["Healed"]


@pytest.mark.slow
def test_a_crash_after_any_write_of_the_first_build_converges(tmp_path: Path) -> None:
    world = worlds.world()
    asyncio.run(world.run(world.operator(), passes=12))
    count = len(world.writes)

    for after in range(1, count + 1, 3):
        world = worlds.world()
        crash = CrashPoint(after, str(tmp_path), die)
        asyncio.run(world.run(world.operator(crash), passes=16, crash=crash))

        assert world.is_quiet(), f"crash after write {after}"


def test_lives_of_one_and_two_writes_heal_a_fleet(world: World, tmp_path: Path) -> None:
    """As tests/e2e/test_operator_crash.py does with real processes: no promise may cost a life more than it has."""
    world.lose(LOST)
    lives = 0

    while lives < 80 and not (world.status().history and world.is_quiet()):
        crash = CrashPoint(1 + lives % 2, str(tmp_path / f"{lives}"), die)
        (tmp_path / f"{lives}").mkdir()
        asyncio.run(live(world, crash))
        lives += 1

    assert world.is_quiet(), world.status().bookies
    assert [one.result for one in world.status().history] == ["Healed"]


async def live(world: World, crash: CrashPoint) -> None:
    """One operator's life: until it dies, for ten passes at most."""
    operator = world.operator(crash)
    for _ in range(10):
        try:
            await operator.reconcile(worlds.KEY)
        except Crashed:
            return
        finally:
            world.settle()


def test_an_operator_that_dies_between_record_and_grant_leaves_a_grant_that_the_next_one_sends(world: World) -> None:
    world.lose(LOST)
    operator = world.operator()
    world.refuse_grants = "test"
    while not any(one.grant for one in world.status().bookies):
        asyncio.run(world.run(operator, passes=1))
    recorded = next(one.grant for one in world.status().bookies if one.grant)
    world.refuse_grants = ""

    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))

    assert [grant.id for grant in world.accepted] == [recorded.id]
    assert world.accepted[0].epoch > recorded.epoch


def test_a_pod_that_restarts_after_the_record_voids_the_grant(world: World) -> None:
    world.lose(LOST)
    world.refuse_grants = "test"
    operator = world.operator()
    asyncio.run(world.run(operator, passes=10))
    assert any(one.grant for one in world.status().bookies)

    world.kill(LOST)
    volumes = world.objects
    asyncio.run(world.run(operator, passes=1))
    for volume in ("journal", "ledgers", "index"):
        assert ("PersistentVolumeClaim", f"{volume}-{LOST}") in volumes
    bookie = world.bookie(LOST)
    bookie.volumes = dict.fromkeys(bookie.volumes, worlds.Contents.EMPTY)
    bookie.start()
    world.refuse_grants = ""
    asyncio.run(world.run(operator, passes=PASSES, until_quiet=True))

    assert world.is_quiet()
    assert [one.result for one in world.status().history] == ["Void", "Healed"]
    assert len(world.accepted) == 1


def test_an_unmounted_volume_is_held_for_ever_and_never_granted(world: World) -> None:
    world.lose(LOST)
    world.mount = MountProof.MISSING

    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))

    entry = world.status().bookie(LOST)
    assert entry is not None
    assert (entry.state, entry.verdict) == ("Held", "MountMissing")
    assert world.accepted == []


def test_two_empty_bookies_are_more_than_the_ack_quorum_survives(world: World) -> None:
    world.lose(LOST)
    world.lose("ledgers-zone-c-0")

    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "AckQuorumBreached")
    assert world.accepted == []


def test_a_second_loss_of_the_same_bookie_is_a_new_case_with_a_new_grant(world: World) -> None:
    operator = world.operator()
    for _ in range(2):
        world.lose(LOST)
        asyncio.run(world.run(operator, passes=PASSES, until_quiet=True))

    assert world.is_quiet()
    assert [grant.new_incarnation for grant in world.accepted] == [2, 3]


def test_pods_of_a_release_without_tls_are_seen_and_granted_nothing_until_they_are_replaced(world: World) -> None:
    """The upgrade: the operator first, then the pods, one at a time; a loss in between waits for its pod's turn."""
    pods = [one.name for one in world.status().bookies]
    for pod in pods:
        world.make_older(pod)
    asyncio.run(world.run(world.operator(), passes=5))
    assert [one.state for one in world.status().bookies] == ["Serving"] * len(pods)

    world.lose(LOST)
    operator = world.operator()
    asyncio.run(world.run(operator, passes=1))
    world.make_older(LOST)
    asyncio.run(world.run(operator, passes=PASSES))
    entry = world.status().bookie(LOST)
    assert entry is not None
    assert ([gate.name for gate in entry.gates], world.accepted) == (["G11-Capability"], [])

    for pod in (LOST, *(one for one in pods if one != LOST)):
        world.kill(pod)
        asyncio.run(world.run(operator, passes=PASSES, until_quiet=True))

    assert world.is_quiet()
    assert len(world.accepted) == 1
    assert all(address.endswith(":3184") for address in world.bookies)


@pytest.mark.parametrize("seen", [50, 2**31 - 2, 2**31 + 7, OPERATOR_EPOCH_MAX - 1, OPERATOR_EPOCH_MAX])
def test_a_cluster_goes_on_after_the_epoch_that_its_bookies_have_seen(world: World, seen: int) -> None:
    """Also where a forged grant moved it, under a release that believed refused ones."""
    world.epoch_seen = seen
    world.lose(LOST)

    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))

    assert world.is_quiet()
    assert world.accepted[0].epoch == min(seen + 1, OPERATOR_EPOCH_MAX)
    assert world.status().operator.epoch == world.accepted[0].epoch


def test_an_epoch_that_no_operator_gives_is_not_followed_and_stops_no_pass(world: World) -> None:
    world.epoch_seen = 2**64 - 1
    world.lose(LOST)

    asyncio.run(world.run(world.operator(), passes=PASSES))

    entry = world.status().bookie(LOST)
    assert entry is not None
    assert [gate.name for gate in entry.gates] == ["G1-Leader"]
    assert "Update its image" in entry.gates[0].message
    assert world.status().operator.epoch < 10
    world.epoch_seen = 0  # the new release reads such a record as none
    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))
    assert world.is_quiet()


def test_every_leader_takes_the_next_epoch_of_the_cluster_and_keeps_it(world: World) -> None:
    epochs = []
    for _ in range(3):
        operator = world.operator()
        asyncio.run(world.run(operator, passes=2))
        first = world.status().operator
        asyncio.run(world.run(operator, passes=2))
        assert world.status().operator == first
        epochs.append(first.epoch)

    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]


def test_a_heal_names_who_granted_it_in_the_status_the_history_and_an_event(world: World) -> None:
    world.lose(LOST)

    asyncio.run(world.run(world.operator(), passes=PASSES, until_quiet=True))

    entry, (past,) = world.status().bookie(LOST), world.status().history
    assert entry is not None
    assert (entry.granted_by, past.given_by) == ("certificate: operator-2", "operator operator-2")
    assert "operator operator-2 granted incarnation 2" in world.note("RegenerationGranted")
    assert "granted by certificate: operator-2" in world.note("CookieRegenerated")


def test_a_grant_that_somebody_else_gave_is_in_the_history_and_a_warning() -> None:
    world = worlds.world(repair={"regeneration": "Manual"})
    operator = world.operator()
    asyncio.run(world.run(operator, passes=12))
    world.lose(LOST)
    asyncio.run(world.run(operator, passes=10))
    bookie = world.bookie(LOST)
    assert bookie.state is State.WAITING_GRANT

    bookie.grant_id, bookie.granted_by, bookie.state = "cli-1", "local: ada@bookie", State.FENCING
    asyncio.run(world.run(operator, passes=PASSES, until_quiet=True))

    (past,) = world.status().history
    assert (past.grant_id, past.bookie, past.incarnation) == ("cli-1", LOST, 2)
    assert (past.given_by, past.result) == ("local: ada@bookie", "ByHand")
    assert "local: ada@bookie granted incarnation 2" in world.note("RegenerationGrantedByHand")


def test_an_edit_that_lands_during_a_pass_stops_the_grant_of_that_pass(world: World) -> None:
    """The record is stored only if nobody touched the resource since it was read; no record, no grant."""
    world.lose(LOST)
    operator = world.operator()
    world.is_edited_while_read = True

    async def story() -> int:
        conflicts = 0
        for _ in range(PASSES):
            try:
                await operator.reconcile(worlds.KEY)
            except KubeError as error:
                conflicts += error.is_conflict
            world.settle()
        return conflicts

    conflicts = asyncio.run(story())

    assert conflicts > 0
    assert world.accepted == []
    assert not any(write.startswith("grant/") for write in world.writes)


def test_without_the_right_to_read_volumes_a_shared_disk_is_never_proven_lost(world: World) -> None:
    world.forbidden = "PersistentVolume"
    world.lose(LOST)

    asyncio.run(world.run(world.operator(), passes=PASSES))

    entry, limited = world.status().bookie(LOST), world.status().condition("LimitedVisibility")
    assert entry is not None
    assert limited is not None
    assert (entry.state, entry.reason, limited.status) == ("Held", "SharedVolumeUnproven", "True")
    assert world.accepted == []


def test_a_budget_that_may_not_be_closed_forbids_the_grant(world: World) -> None:
    """The whole protection, or nobody is let loose."""
    world.forbidden = "PodDisruptionBudget"
    world.lose(LOST)

    asyncio.run(world.run(world.operator(), passes=PASSES))

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "PermissionMissing")
    assert world.accepted == []


def test_what_the_api_server_will_never_take_is_said_not_repeated_in_silence() -> None:
    world = worlds.world()
    world.invalid = "StatefulSet"

    asyncio.run(world.run(world.operator(), passes=5))

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "ApplyRefused"
    assert "StatefulSet ledgers-zone-a" in stalled.message


def test_a_policy_that_refuses_the_keys_of_a_cluster_is_told_in_its_status() -> None:
    """Some policies answer 400 and not 403; the keys come before the pass looks at anything."""
    world = worlds.world()
    world.invalid = "Secret"

    asyncio.run(world.run(world.operator(), passes=2))

    found = {one.type: (one.status, one.reason) for one in world.status().conditions}
    assert found["Stalled"] == ("True", "ApplyRefused")
    assert {status for kind, (status, _) in found.items() if kind != "Stalled"} == {"Unknown"}
    world.invalid = ""
    asyncio.run(world.run(world.operator(), passes=14))
    assert world.is_quiet()


def test_an_operator_that_may_not_read_pods_says_that_nothing_is_known(world: World) -> None:
    world.forbidden = "Pod"

    asyncio.run(world.run(world.operator(), passes=2))

    found = {one.type: one.status for one in world.status().conditions}
    assert found == dict.fromkeys(conditions.TYPES, "Unknown") | {"Stalled": "True"}
    world.forbidden = ""
    asyncio.run(world.run(world.operator(), passes=2))
    assert world.is_quiet()


def test_what_a_quota_refuses_is_said_in_ready() -> None:
    world = worlds.world()
    world.over_quota = "ledgers-zone-a"
    for note, when in (("exceeded quota: small", "2027-01-15T08:00:09Z"), ("an older word", "2027-01-15T08:00:01Z")):
        regarding = {"kind": "StatefulSet", "name": "ledgers-zone-a"}
        event = {"kind": "Event", "metadata": {"name": note}, "reason": "FailedCreate", "regarding": regarding}
        world.put(event | {"note": note, "eventTime": when})

    asyncio.run(world.run(world.operator(), passes=8))

    ready = world.status().condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "Bootstrapping")
    assert "pod ledgers-zone-a-0 does not exist: exceeded quota: small" in ready.message


def test_a_bookie_that_does_not_answer_is_unreachable_and_gets_nothing(world: World) -> None:
    world.bookie(LOST).is_reachable = False

    asyncio.run(world.run(world.operator(), passes=PASSES))

    entry = world.status().bookie(LOST)
    assert entry is not None
    assert (entry.state, entry.verdict) == ("Unreachable", "Unknown")
    assert world.accepted == []


def test_a_spec_that_an_older_crd_let_through_is_refused_in_status_and_nothing_is_touched(world: World) -> None:
    world.objects[("BookieCluster", "ledgers")]["spec"]["replicas"] = 1
    world.objects[("BookieCluster", "ledgers")]["metadata"]["generation"] = 2
    world.writes.clear()

    asyncio.run(world.run(world.operator(), passes=3))

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "SpecInvalid"
    assert world.writes == ["BookieCluster/ledgers/status"]
    assert len(world.status().bookies) == 4


def test_a_cluster_that_is_gone_is_forgotten(world: World) -> None:
    del world.objects[("BookieCluster", "ledgers")]
    world.writes.clear()

    assert asyncio.run(world.operator().reconcile(worlds.KEY)) is None
    # Both without what was this cluster's.
    assert world.writes == ["Secret/bookie-admin-certificates", "Secret/bookie-operator-authorities"]


PEER = "ledgers-zone-c-0"


def crash_loop(world: World, seconds: int) -> int:
    """A peer's pod is made again and again, sometimes answering without serving, under operators that come and go;
    how many grants were accepted meanwhile."""
    operator = world.operator()
    before = len(world.accepted)
    for second in range(seconds):
        world.kill(PEER)
        asyncio.run(world.run(operator, passes=1))  # missing
        world.bookie(PEER).is_reachable = second % 3 == 0
        world.bookie(PEER).state = worlds.State.STARTING
        asyncio.run(world.run(operator, passes=1))  # unreachable, or inspecting
        if second % 10 == 9:
            operator = world.operator()
    return len(world.accepted) - before


def test_a_grant_waits_for_a_peer_that_crash_loops_and_not_longer_than_its_grace(world: World) -> None:
    world.edit(repair={"stabilization": "6s", "peerGrace": "40s"})
    world.lose(LOST)

    early, late = crash_loop(world, 12), crash_loop(world, 20)

    assert (early, late) == (0, 1)


def test_an_operator_that_lost_its_lease_writes_nothing(world: World) -> None:
    world.lose(LOST)
    world.has_lease = False
    world.writes.clear()

    with pytest.raises(LostLease):
        asyncio.run(world.operator().reconcile(worlds.KEY))

    assert world.writes == []


@pytest.mark.parametrize("passes", [2, 6])
def test_a_loss_heals_after_a_clock_was_set_back(world: World, passes: int) -> None:
    """The node of the operator that first saw the loss was a day ahead; the next operator's is right."""
    world.now_ms += DAY_MS
    world.lose(LOST)
    asyncio.run(world.run(world.operator(), passes=passes))
    told = world.status().bookie(LOST)
    assert told is not None
    assert world.accepted == []
    world.now_ms -= DAY_MS

    asyncio.run(world.run(world.operator(), passes=2 * PASSES, until_quiet=True))

    assert world.is_quiet(), world.status().bookie(LOST)
    assert len(world.accepted) == 1
