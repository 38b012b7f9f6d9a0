"""The verdict, row by row of docs/INTEGRITY.md (spec/bp46.md#R10 to R14)."""

import dataclasses

import pytest

import integrity_support as build
from bookie.integrity import verdict
from bookie.integrity.verdict import UNCOUNTED
from bookie.metadata.cookie import IncarnationRecord
from bookie.ports.admin import Contents, MountProof, Verdict

EMPTY, VALID, STALE = Contents.EMPTY, Contents.VALID, Contents.STALE
FOREIGN, UNKNOWN, REGENERATING = Contents.FOREIGN, Contents.UNKNOWN, Contents.REGENERATING
ALL_EMPTY = (EMPTY, EMPTY, EMPTY)


def test_no_cookie_no_data_and_no_ledger_naming_it_is_a_new_bookie() -> None:
    decision = verdict.decide(build.new_bookie(*ALL_EMPTY, ledgers_naming_me=0))

    assert decision.verdict is Verdict.BOOTSTRAP


def test_before_the_ledgers_were_counted_nothing_is_concluded() -> None:
    decision = verdict.decide(build.new_bookie(*ALL_EMPTY, ledgers_naming_me=UNCOUNTED))

    assert decision.verdict is None


def test_a_ledger_that_names_a_bookie_without_cookie_holds_it() -> None:
    decision = verdict.decide(build.new_bookie(*ALL_EMPTY, ledgers_naming_me=2))

    assert decision.verdict is Verdict.COOKIE_MISSING
    assert "2 ledgers name this bookie" in decision.reason
    assert decision.is_held


def test_empty_volumes_under_an_existing_cookie_are_a_loss() -> None:
    decision = verdict.decide(build.facts(*ALL_EMPTY))

    assert decision.verdict is Verdict.LOST
    assert decision.lost == ("journal", "ledgers", "index")
    assert not decision.is_held


def test_a_java_bookies_cookie_without_a_record_and_empty_volumes_is_a_loss() -> None:
    assert verdict.decide(build.facts(*ALL_EMPTY, record=None)).verdict is Verdict.LOST


def test_one_empty_volume_of_three_is_a_loss_that_names_it() -> None:
    decision = verdict.decide(build.facts(VALID, VALID, EMPTY))

    assert (decision.verdict, decision.lost) == (Verdict.LOST, ("index",))


def test_valid_volumes_of_the_current_life_are_healthy() -> None:
    assert verdict.decide(build.facts()).verdict is Verdict.HEALTHY


def test_valid_volumes_after_a_crash_without_journaled_data_are_unclean() -> None:
    assert verdict.decide(build.facts(lost_writes=True)).verdict is Verdict.UNCLEAN


def test_volumes_behind_the_position_that_this_bookie_told_are_unclean() -> None:
    decision = verdict.decide(build.facts(set_back=True))

    assert decision.verdict is Verdict.UNCLEAN
    assert "went back in time" in decision.reason
    assert verdict.decide(build.facts(EMPTY, VALID, set_back=True)).verdict is Verdict.LOST


def test_a_volume_that_went_back_in_time_is_held() -> None:
    decision = verdict.decide(build.facts(VALID, STALE, VALID))

    assert decision.verdict is Verdict.STALE
    assert decision.is_held


def test_a_volume_of_another_bookie_is_held() -> None:
    assert verdict.decide(build.facts(VALID, FOREIGN, VALID)).verdict is Verdict.FOREIGN


@pytest.mark.parametrize("contents", [UNKNOWN, Contents.UNSPECIFIED])
def test_contents_that_nobody_can_explain_are_held(contents: Contents) -> None:
    assert verdict.decide(build.facts(VALID, contents, VALID)).verdict is Verdict.UNKNOWN_CONTENT


@pytest.mark.parametrize("rest", [VALID, EMPTY, STALE, REGENERATING, Contents.ADDED])
def test_a_disk_that_does_not_answer_is_held_whatever_the_others_have(rest: Contents) -> None:
    """It proves no loss, and beside volumes that went back in time no grant is possible (spec/operator.md#V14)."""
    decision = verdict.decide(build.facts(rest, Contents.UNREADABLE, rest))

    assert (decision.verdict, decision.is_held) == (Verdict.UNREADABLE, True)
    assert (decision.lost, decision.stale, decision.added) == ((), (), ())
    for said in ("ledgers", "mend its disk", "integrity grant"):
        assert said in decision.reason


def test_a_strange_volume_is_told_before_a_disk_that_does_not_answer() -> None:
    for contents, worse in ((FOREIGN, Verdict.FOREIGN), (UNKNOWN, Verdict.UNKNOWN_CONTENT)):
        assert verdict.decide(build.facts(Contents.UNREADABLE, contents, VALID)).verdict is worse


@pytest.mark.parametrize("naming", [UNCOUNTED, 0])
def test_a_disk_that_does_not_answer_makes_no_new_bookie(naming: int) -> None:
    decision = verdict.decide(build.new_bookie(EMPTY, Contents.UNREADABLE, EMPTY, ledgers_naming_me=naming))

    assert decision.verdict is Verdict.UNREADABLE


@pytest.mark.parametrize("proof", [MountProof.MISSING, MountProof.SUSPECT, MountProof.UNSPECIFIED])
@pytest.mark.parametrize("contents", list(Contents))
def test_a_mount_that_is_not_proven_is_held_whatever_it_seems_to_contain(proof: MountProof, contents: Contents) -> None:
    unproven = build.volume("ledgers", contents, proof=proof)
    facts = build.facts()

    decision = verdict.decide(dataclasses.replace(facts, volumes=(facts.volumes[0], unproven)))

    assert decision.verdict is Verdict.MOUNT_MISSING
    assert decision.is_held
    assert "ledgers" in decision.reason


@pytest.mark.parametrize("proof", [MountProof.PROVEN, MountProof.SHARED, MountProof.UNCHECKED])
def test_every_accepted_proof_allows_a_verdict_on_the_contents(proof: MountProof) -> None:
    volumes = tuple(build.volume(name, EMPTY, proof=proof) for name in ("journal", "ledgers"))

    assert verdict.decide(build.facts(volumes=volumes)).verdict is Verdict.LOST


def test_data_without_a_cookie_in_the_store_is_held() -> None:
    decision = verdict.decide(build.new_bookie(record=build.RECORD))

    assert decision.verdict is Verdict.COOKIE_MISSING
    assert "restore the cookie" in decision.reason


@pytest.mark.parametrize("record", [build.RECORD, None])
def test_both_ways_on_without_a_cookie_are_named_and_neither_is_taken(record: IncarnationRecord | None) -> None:
    """It went by accident, or the bookie was decommissioned on purpose and nobody emptied its directories: a program
    cannot tell."""
    decision = verdict.decide(build.new_bookie(record=record, ledgers_naming_me=0))

    assert decision.is_held
    assert "by accident" in decision.reason
    assert "restore the cookie (`bookie cookie create`" in decision.reason
    assert "decommissioned this bookie on purpose, and `bookie cluster references` finds no ledger" in decision.reason
    assert "begin with empty directories" in decision.reason


def test_one_valid_volume_without_a_cookie_in_the_store_is_no_new_bookie() -> None:
    """Java takes this for a new environment and loses data silently (spec/bp46.md#R12)."""
    decision = verdict.decide(build.new_bookie(VALID, EMPTY, EMPTY, ledgers_naming_me=0))

    assert decision.verdict is Verdict.COOKIE_MISSING


def test_data_without_a_record_of_its_life_is_held() -> None:
    assert verdict.decide(build.facts(record=None)).verdict is Verdict.COOKIE_MISSING


def test_a_stored_cookie_that_does_not_fit_the_settings_is_held_even_on_empty_volumes() -> None:
    decision = verdict.decide(build.facts(*ALL_EMPTY, cookie_problem="the cookie's journal directories differ"))

    assert decision.verdict is Verdict.UNKNOWN_CONTENT
    assert "journal" in decision.reason


# ---- half-done regenerations ----------------------------------------------------------------------------------------


def with_begun(count: int, rest: Contents, *, incarnation: int, grant_id: str) -> verdict.Facts:
    mark = build.sentinel_of(incarnation=incarnation, grant_id=grant_id)
    names = ("journal", "ledgers", "index")
    volumes = [build.volume(name, REGENERATING, mark=mark) for name in names[:count]]
    volumes += [build.volume(name, rest) for name in names[count:]]
    return build.facts(volumes=tuple(volumes))


def test_a_regeneration_that_did_not_reach_the_cookie_is_still_a_loss() -> None:
    decision = verdict.decide(with_begun(3, VALID, incarnation=4, grant_id="grant-4"))

    assert decision.verdict is Verdict.LOST
    assert "needs a grant" in decision.reason


@pytest.mark.parametrize("is_first", [True, False])
def test_one_volume_whose_regeneration_did_not_reach_the_cookie_is_a_loss_beside_one_that_did(is_first: bool) -> None:
    """The cookie reached the life of one, and the next one began on the other: nobody has granted that."""
    reached = build.volume("journal", REGENERATING, mark=build.sentinel_of(incarnation=3, grant_id="grant-3"))
    begun = build.volume("ledgers", REGENERATING, mark=build.sentinel_of(incarnation=4, grant_id="grant-4"))

    decision = verdict.decide(build.facts(volumes=(begun, reached) if is_first else (reached, begun)))

    assert decision.verdict is Verdict.LOST
    assert set(decision.lost) == {"journal", "ledgers"}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_regeneration_that_reached_the_cookie_is_finished_without_a_grant(count: int) -> None:
    """The volumes already stamped are valid, the others still say regenerating."""
    decision = verdict.decide(with_begun(count, VALID, incarnation=3, grant_id="grant-3"))

    assert decision.verdict is Verdict.RESUME


def test_a_volume_that_is_empty_again_makes_it_a_new_loss() -> None:
    decision = verdict.decide(with_begun(2, EMPTY, incarnation=3, grant_id="grant-3"))

    assert (decision.verdict, decision.lost) == (Verdict.LOST, ("index",))


def test_half_regenerated_volumes_beside_a_stale_one_are_held() -> None:
    assert verdict.decide(with_begun(2, STALE, incarnation=3, grant_id="grant-3")).verdict is Verdict.STALE


def test_a_bootstrap_cut_before_its_cookie_begins_again() -> None:
    mark = build.sentinel_of(incarnation=1, grant_id="bootstrap-1")
    volumes = (build.volume("journal", REGENERATING, mark=mark), build.volume("ledgers", EMPTY))

    decision = verdict.decide(build.new_bookie(volumes=volumes, ledgers_naming_me=0))

    assert decision.verdict is Verdict.BOOTSTRAP


# ---- worst member wins ------------------------------------------------------------------------------------------

RANK = (
    (UNKNOWN, Verdict.UNKNOWN_CONTENT),
    (STALE, Verdict.STALE),
    (EMPTY, Verdict.LOST),
    (VALID, Verdict.HEALTHY),
)


@pytest.mark.parametrize(("contents", "expected"), RANK)
def test_the_worst_member_decides(contents: Contents, expected: Verdict) -> None:
    better = [one for one, _ in RANK[[one for one, _ in RANK].index(contents) :]]

    for other in better:
        assert verdict.decide(build.facts(other, contents, other)).verdict is expected


def test_every_held_verdict_says_so_and_the_others_do_not() -> None:
    assert {one for one in Verdict if one.is_held} == {
        Verdict.MOUNT_MISSING,
        Verdict.FOREIGN,
        Verdict.UNKNOWN_CONTENT,
        Verdict.COOKIE_MISSING,
        Verdict.STALE,
        Verdict.SET_ASIDE,
        Verdict.UNREADABLE,
    }


@pytest.mark.parametrize("contents", [ALL_EMPTY, (VALID, VALID, VALID), (VALID, FOREIGN, EMPTY)])
@pytest.mark.parametrize("cookie", [True, False])
def test_a_bookie_that_a_person_took_out_of_service_is_held_whatever_else_is_so(
    contents: tuple[Contents, ...], *, cookie: bool
) -> None:
    facts = build.facts(*contents) if cookie else build.new_bookie(*contents, ledgers_naming_me=0)

    decision = verdict.decide(dataclasses.replace(facts, set_aside="its disk clicks"))

    assert (decision.verdict, decision.reason) == (Verdict.SET_ASIDE, "its disk clicks")


def test_a_stale_volume_may_be_repaired_only_while_the_store_proves_whose_it_is() -> None:
    assert verdict.decide(build.facts(VALID, STALE, VALID)).stale == ("ledgers",)
    assert verdict.decide(build.facts(STALE, EMPTY, STALE)).stale == ("journal", "index")
    for missing in ({"cookie_present": False}, {"cookie_problem": "another layout"}, {"record": None}):
        decision = verdict.decide(build.facts(VALID, STALE, VALID, **missing))
        assert (decision.verdict, decision.stale) == (Verdict.STALE, ())
    for worse in (Contents.FOREIGN, Contents.UNKNOWN):
        decision = verdict.decide(build.facts(worse, STALE, VALID))
        assert (decision.is_held, decision.stale) == (True, ())


# ---- added volumes ---------------------------------------------------------------------------------------------------


def test_an_added_volume_beside_valid_ones_is_taken() -> None:
    decision = verdict.decide(build.facts(VALID, VALID, Contents.ADDED))

    assert (decision.verdict, decision.added, decision.lost) == (Verdict.HEALTHY, ("index",), ())
    assert "index is empty and never was this bookie's" in decision.reason


@pytest.mark.parametrize("changes", [{"lost_writes": True}, {"set_back": True}])
def test_an_added_volume_waits_for_no_clean_stop(changes: dict[str, bool]) -> None:
    decision = verdict.decide(build.facts(VALID, VALID, Contents.ADDED, **changes))

    assert (decision.verdict, decision.added) == (Verdict.UNCLEAN, ("index",))


@pytest.mark.parametrize("worse", [EMPTY, REGENERATING])
def test_beside_a_loss_an_added_volume_counts_as_lost(worse: Contents) -> None:
    decision = verdict.decide(build.facts(worse, VALID, Contents.ADDED))

    assert (decision.verdict, decision.added, decision.lost) == (Verdict.LOST, (), ("journal", "index"))


@pytest.mark.parametrize("worse", [STALE, FOREIGN, UNKNOWN])
def test_nothing_is_added_to_a_bookie_that_is_held(worse: Contents) -> None:
    decision = verdict.decide(build.facts(worse, VALID, Contents.ADDED))

    assert decision.is_held
    assert decision.added == ()


def test_an_added_volume_whose_mount_is_not_proven_holds_the_bookie() -> None:
    volumes = (build.volume("journal"), build.volume("more", Contents.ADDED, proof=MountProof.MISSING))

    assert verdict.decide(build.facts(volumes=volumes)).verdict is Verdict.MOUNT_MISSING
