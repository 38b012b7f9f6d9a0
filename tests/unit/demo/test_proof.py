"""The demo's claims: each holds on what a good run shows, and falls on what a bad one would."""

from typing import Any

import proof
from stage import Observation

VERDICT = {
    "ledgers": 9, "acknowledged": 100, "verified": 100, "lost": 0, "recovered": 4, "problems": [],
    "replicas_checked": 40, "replicas_missing": 0,
}  # fmt: skip
WAITS = Observation(state="WAITING_GRANT", incarnation=1)
FENCES = Observation(state="FENCING", phase="one", incarnation=1, ledgers_fenced=1)
STAMPS = Observation(state="STAMPING", phase="cookie", incarnation=1, ledgers_fenced=8, ledgers_limbo=5)
SERVES = Observation(state="REPAIRING", phase="two", incarnation=2, ledgers_fenced=8, ledgers_limbo=5)


def probe(**found: Any) -> dict[str, Any]:
    return {"fenced": 0, "refused": 0, "moved": 0, "unfenced": [], "unknown": []} | found


def test_a_whole_run_proves_that_nothing_is_lost() -> None:
    assert proof.nothing_lost(VERDICT).holds


def test_one_lost_entry_is_enough_to_fail() -> None:
    found = proof.nothing_lost(VERDICT | {"verified": 99, "lost": 1, "problems": ["ledger 3 entry 7: gone"]})

    assert not found.holds
    assert "ledger 3 entry 7" in found.seen


def test_nothing_acknowledged_proves_nothing() -> None:
    assert not proof.nothing_lost(VERDICT | {"acknowledged": 0, "verified": 0}).holds


def test_a_copy_that_is_missing_on_the_healed_bookie_fails_although_readers_see_all() -> None:
    assert proof.copies_are_back("b", VERDICT).holds
    assert not proof.copies_are_back("b", VERDICT | {"replicas_missing": 1}).holds
    assert not proof.copies_are_back("b", VERDICT | {"replicas_checked": 0}).holds


def test_marks_before_the_cookie_and_refused_writers_prove_the_order() -> None:
    found = proof.protected_before_cookie([WAITS, FENCES, STAMPS, SERVES], probe(refused=5), probe(fenced=5))

    assert found.holds, found.seen
    assert "8 ledgers protected, 5 in limbo" in found.seen


def test_a_cookie_replaced_before_or_while_phase_one_ran_fails() -> None:
    early = Observation(state="STAMPING", phase="cookie", incarnation=1, ledgers_fenced=0)
    ran_on = Observation(state="FENCING", phase="one", incarnation=2, ledgers_fenced=0)
    refuses = (probe(refused=5), probe(fenced=5))

    assert not proof.protected_before_cookie([WAITS, early, FENCES, SERVES], *refuses).holds
    assert not proof.protected_before_cookie([WAITS, ran_on, STAMPS, SERVES], *refuses).holds
    assert not proof.protected_before_cookie([WAITS, FENCES], *refuses).holds


def test_fewer_marks_at_the_cookie_than_ledgers_that_refuse_fails() -> None:
    few = Observation(state="STAMPING", phase="cookie", incarnation=1, ledgers_fenced=2)

    assert not proof.protected_before_cookie([WAITS, FENCES, few], probe(refused=5), probe(fenced=5)).holds


def test_an_add_that_was_taken_fails_at_once_and_at_last() -> None:
    history = [WAITS, FENCES, STAMPS, SERVES]

    assert not proof.protected_before_cookie(history, probe(unfenced=[4]), probe(fenced=1)).holds
    assert not proof.protected_before_cookie(history, probe(refused=1), probe(unfenced=[4])).holds
    assert not proof.protected_before_cookie(history, probe(unknown=["ledger 4: no answer"]), probe(fenced=1)).holds


def test_a_writer_that_goes_on_in_its_ledger_has_lived() -> None:
    before = {"steady_ledger": 4, "steady_acknowledged": 100, "last_failure": ""}

    assert proof.writer_lived(before, before | {"steady_acknowledged": 150}).holds
    assert not proof.writer_lived(before, before).holds
    assert not proof.writer_lived(before, before | {"steady_ledger": 9, "last_failure": "LedgerFenced"}).holds


def audited(**bookies: tuple[int, int, int]) -> dict[str, Any]:
    """The summary of an audit: (promised, missing, unreachable) copies of each bookie."""
    words = ("expected", "missing", "unreachable", "corrupt", "read")
    named = {name: dict(zip(words, (*of, 0, 1), strict=True)) for name, of in bookies.items()}
    copies = {word: sum(of[word] for of in named.values()) for word in words}
    outcome = "damage" if copies["missing"] else "not known" if copies["unreachable"] else "whole"
    return {"bookies": named, "copies": copies, "ledgers": {"closed": 3, "open": 1}, "outcome": outcome}


def test_an_audit_that_names_the_lost_bookie_and_nobody_else_proves_it() -> None:
    assert proof.audit_named_the_loss("b", audited(a=(9, 0, 0), b=(7, 0, 7))).holds
    assert proof.audit_named_the_loss("b", audited(a=(9, 0, 0), b=(7, 2, 3))).holds


def test_an_audit_that_saw_no_loss_or_one_that_never_was_proves_nothing() -> None:
    assert not proof.audit_named_the_loss("b", audited(a=(9, 0, 0), b=(7, 0, 0))).holds
    assert not proof.audit_named_the_loss("b", audited(a=(9, 1, 0), b=(7, 0, 7))).holds
    assert not proof.audit_named_the_loss("b", audited(a=(9, 0, 0))).holds


def test_one_copy_that_the_audit_does_not_see_is_enough_to_fail() -> None:
    assert proof.audit_is_clean(audited(a=(9, 0, 0))).holds
    assert not proof.audit_is_clean(audited(a=(9, 1, 0))).holds
    assert not proof.audit_is_clean(audited(a=(9, 0, 1))).holds
    assert not proof.audit_is_clean(audited()).holds
