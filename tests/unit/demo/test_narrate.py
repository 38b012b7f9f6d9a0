"""What the demo tells: each change once, in words."""

import narrate
from stage import Observation

LOST = Observation(state="WAITING_GRANT", verdict="LOST", reason="three volumes are empty", incarnation=1)


def told(before: Observation, after: Observation) -> list[str]:
    return [text for _, text in narrate.changes(before, after)]


def test_a_verdict_and_a_state_are_told_with_their_reason() -> None:
    texts = told(Observation(), LOST)

    assert texts[0] == "verdict LOST: three volumes are empty"
    assert texts[1].startswith("WAITING_GRANT: ")


def test_nothing_is_told_twice() -> None:
    assert told(LOST, LOST) == []


def test_the_end_of_phase_one_is_told_with_its_duration_and_marks() -> None:
    fencing = Observation(state="FENCING", phase="one", phase_one_ms=10, incarnation=1)
    stamping = Observation(
        state="STAMPING", phase="cookie", phase_one_ms=120, ledgers_fenced=3, ledgers_limbo=5, incarnation=1
    )

    assert any("0.12 s: 3 ledgers closed to writers, 5 in limbo" in text for text in told(fencing, stamping))


def test_a_new_incarnation_and_the_end_are_told() -> None:
    two = Observation(state="REPAIRING", phase="two", incarnation=1)
    done = Observation(
        state="SERVING", phase="done", incarnation=2, done=True, entries_copied=7, ledgers_done=2, bytes_copied=7000
    )

    texts = told(two, done)

    assert "new cookie: incarnation 1 -> 2" in texts
    assert any("7 entries copied" in text for text in texts)


def test_notes_of_the_operator_are_told_once_each() -> None:
    first = Observation(notes=("operator: EmptyVolumeSuspected: b",))
    second = Observation(notes=("operator: EmptyVolumeSuspected: b", "operator: RegenerationGranted: b"))

    assert told(first, second) == ["operator: RegenerationGranted: b"]
