"""What a signature in the note of a loss is worth, and what makes it worthless (spec/metadata.md#M58)."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.metadata import loss_signature, lost_entries, recorded_losses, serde
from bookie.metadata.ledger import LedgerMetadata, LedgerState, new_ledger
from bookie.metadata.loss_signature import Place, Seal, Worth
from bookie.metadata.lost_entries import Act
from bookie.metadata.recorded_losses import DECLARED, ENDED, RecordedLoss
from loss_keys_support import ANN, BOB, signing, trusting

PAGE = Path(__file__).resolve().parents[3] / "docs/spec/metadata.md"
PLACE = Place("b7a2ab4a-17a8-4d0c-9d7e-6a2c40f7e0c3", LedgerId(7), 1_700_000_000_000)
SEAL = Seal(signing(ANN), PLACE)
TRUSTED = [trusting("bob", BOB), trusting("ann", ANN)]
BOOKIES = tuple(BookieId(name) for name in ("b1:3181", "b2:3181"))
ACT = Act("ann", "the rack burnt", 1_700_000_100_000, BOOKIES, ((EntryId(3), EntryId(4)),), "bookie 0.1.0")


def closed(last: int = 9, length: int = 100) -> LedgerMetadata:
    made = new_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2, bookies=BOOKIES)
    return made.closed(EntryId(last), length)


def with_act(metadata: LedgerMetadata, act: Act, seal: Seal | None) -> LedgerMetadata:
    """As `declaring_lost.declare` writes it."""
    words = lost_entries.said(act)
    if seal is not None:
        words = seal.signed(DECLARED, words, metadata)
    stood = dict(metadata.custom).get(DECLARED)
    return metadata.with_custom(DECLARED, lost_entries.added(stood, act, words))


def ended(metadata: LedgerMetadata, seal: Seal | None = SEAL) -> LedgerMetadata:
    note: dict[str, object] = {"by": "ann", "reason": "burnt", "atMs": 5, "lastEntry": 9, "claims": ("tail",)}
    signed = note if seal is None else seal.signed(ENDED, note, metadata)
    return metadata.with_custom(ENDED, json.dumps(signed).encode())


def judged(metadata: LedgerMetadata, place: Place = PLACE) -> list[RecordedLoss]:
    return recorded_losses.of(metadata, place, TRUSTED)


def worths(metadata: LedgerMetadata, place: Place = PLACE) -> list[Worth]:
    return [each.signature.worth for each in judged(metadata, place)]


SIGNED = with_act(closed(), ACT, SEAL)


def test_who_signed_is_told_to_those_who_trust_the_key_and_to_nobody_else() -> None:
    assert [each.signature.text for each in judged(SIGNED)] == ["trusted: signed by ann"]
    (unknown,) = recorded_losses.of(SIGNED, PLACE, TRUSTED[:1])
    assert (unknown.signature.worth, unknown.signature.name) == (Worth.UNKNOWN_KEY, "")
    (unchecked,) = recorded_losses.of(SIGNED, PLACE, None)
    assert unchecked.signature.text == f"signed by key {SEAL.key.fingerprint[:12]}… (not checked)"
    assert worths(with_act(closed(), ACT, None)) == [Worth.UNSIGNED]
    assert worths(closed()) == []


def test_an_end_that_was_decided_is_signed_as_well() -> None:
    (loss,) = judged(ended(closed()))

    assert (loss.act, loss.by, loss.at_ms, loss.last_entry) == (ENDED, "ann", 5, 9)
    assert loss.signature.worth is Worth.TRUSTED
    assert worths(ended(closed(), None)) == [Worth.UNSIGNED]


def forgeries(note: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the note with one word of it changed, taken away, or added, by turns."""
    for name, value in note.items():
        if name == loss_signature.FIELD:
            continue
        changed = value + "x" if isinstance(value, str) else value + 1 if isinstance(value, int) else [*value, *value]
        yield name, {**note, name: changed or ["x"]}
    yield "more", {**note, "more": 1}
    signature = note[loss_signature.FIELD]
    flipped = base64.b64encode(bytes([base64.b64decode(signature["value"])[0] ^ 1, *bytes(63)])).decode()
    for name, value in (("madeMs", 4), ("value", flipped), ("value", ""), ("value", "é"), ("value", 7), ("more", 1)):
        yield name, {**note, loss_signature.FIELD: {**signature, name: value}}


@pytest.mark.parametrize("key", [DECLARED, ENDED])
def test_whatever_of_a_note_is_changed_it_does_not_verify_any_more(key: str) -> None:
    metadata = SIGNED if key == DECLARED else ended(closed())
    found = json.loads(dict(metadata.custom)[key])
    note = found[0] if key == DECLARED else found

    seen = []
    for name, forged in forgeries(note):
        value = json.dumps([forged] if key == DECLARED else forged).encode()
        assert worths(metadata.with_custom(key, value)) == [Worth.INVALID], (name, forged)
        seen.append(name)

    assert {"by", "reason", "atMs", "claims" if key == ENDED else "bookies"} <= set(seen)


@pytest.mark.parametrize(
    "how", ["another ledger", "another cluster", "another end", "another length", "another digest"]
)
def test_a_note_is_worth_nothing_in_any_other_place(how: str) -> None:
    metadata, place = SIGNED, PLACE
    match how:
        case "another ledger":
            place = dataclasses.replace(place, ledger_id=LedgerId(8))
        case "another cluster":
            place = dataclasses.replace(place, cluster="other")
        case "another end":
            metadata = dataclasses.replace(metadata, last_entry=EntryId(10))
        case "another length":
            metadata = dataclasses.replace(metadata, length=101)
        case _:
            metadata = dataclasses.replace(metadata, digest_type=1)

    assert worths(metadata, place) == [Worth.INVALID]


def test_a_note_of_one_kind_of_act_is_worth_nothing_as_another() -> None:
    (note,) = json.loads(dict(SIGNED.custom)[DECLARED])

    moved = closed().with_custom(ENDED, json.dumps(note).encode())

    assert worths(moved) == [Worth.INVALID]


def test_a_ledger_made_anew_under_the_same_id_is_told_from_the_one_that_was_signed() -> None:
    """Who writes records may copy the whole one; only the store says when its node was made."""
    again = dataclasses.replace(PLACE, made_ms=PLACE.made_ms + 1)

    (loss,) = judged(SIGNED, again)

    assert (loss.signature.worth, loss.signature.name) == (Worth.OTHER_RECORD, "ann")
    assert "made anew under the same id" in loss.signature.text


def test_a_repair_that_moves_copies_leaves_the_signature_valid() -> None:
    moved = ended(SIGNED).replaced(EntryId(0), BOOKIES[0], BookieId("b3:3181"))

    assert worths(moved) == [Worth.TRUSTED, Worth.TRUSTED]


def test_a_second_act_leaves_the_first_one_signed_in_every_word() -> None:
    """Also words that this release does not know: a later one may have signed them."""
    words = SEAL.signed(DECLARED, {**lost_entries.said(ACT), "later": {"b": 1, "a": [True, None, "é"]}}, closed())
    first = closed().with_custom(DECLARED, lost_entries.added(None, ACT, words))
    second = dataclasses.replace(ACT, by="bob", runs=((EntryId(8), EntryId(8)),))

    both = with_act(first, second, Seal(signing(BOB), PLACE))
    all_three = with_act(both, dataclasses.replace(second, by="eve", runs=((EntryId(6), EntryId(6)),)), None)

    assert [each.signature.name for each in judged(both)] == ["ann", "bob"]
    assert worths(all_three) == [Worth.TRUSTED, Worth.TRUSTED, Worth.UNSIGNED]
    assert [act.by for act in all_three.losses()] == ["ann", "bob", "eve"]


def test_a_signature_is_a_word_more_for_who_does_not_know_it() -> None:
    """Bookies and workers heed the note as ever."""
    assert SIGNED.losses() == (ACT,)
    assert SIGNED.lost_runs() == [(3, 4)]


@pytest.mark.parametrize(
    "signature",
    [
        None,
        7,
        [],
        {},
        {"algorithm": "Ed448", "key": "a" * 64, "madeMs": 1, "value": ""},
        {"algorithm": "Ed25519", "key": 7, "madeMs": 1, "value": ""},
        {"algorithm": "Ed25519", "key": "\n" * 64, "madeMs": 1, "value": ""},
        {"algorithm": "Ed25519", "key": "a" * 64, "madeMs": "1", "value": ""},
        {"algorithm": "Ed25519", "key": "a" * 64, "madeMs": True, "value": ""},
        {"algorithm": "Ed25519", "key": "a" * 64, "madeMs": 1, "value": "%"},
        {"algorithm": "Ed25519", "key": "a" * 64, "madeMs": float("nan"), "value": ""},
        {"algorithm": "Ed25519", "key": "a" * 64, "madeMs": 1, "value": "", "more": float("inf")},
    ],
)
@pytest.mark.parametrize("trusted", [None, TRUSTED])
def test_a_signature_of_no_known_form_is_neither_unsigned_nor_signed(signature: object, trusted: Any) -> None:
    note = {**lost_entries.said(ACT), loss_signature.FIELD: signature}

    (loss,) = recorded_losses.of(closed().with_custom(DECLARED, json.dumps([note]).encode()), PLACE, trusted)

    assert loss.signature.worth is Worth.INVALID
    assert loss.signature.text.startswith("does not verify: ")


@pytest.mark.parametrize("key", [DECLARED, ENDED])
@pytest.mark.parametrize("value", [b"", b"\xff", b"7", b"[]", b"[7]", b'"x"', b"[" * 100_000, b'[{"by":1}]'])
def test_a_note_that_nobody_can_read_is_told(key: str, value: bytes) -> None:
    (loss,) = judged(closed().with_custom(key, value))

    assert (loss.act, loss.signature.text) == (key, "does not verify: the note cannot be read, or says one thing twice")


@pytest.mark.parametrize("at_ms", [-1, 10**30, 10**3000])
def test_a_time_that_no_clock_shows_is_none(at_ms: int) -> None:
    """A stranger may have written it, and who lists what was given up must not end there."""
    ended_then = closed().with_custom(ENDED, json.dumps({"by": "eve", "atMs": at_ms}).encode())

    found = judged(with_act(ended_then, dataclasses.replace(ACT, at_ms=at_ms), SEAL))

    assert [each.at_ms for each in found] == [0, 0]


def test_a_note_that_says_one_thing_twice_is_not_taken_for_what_was_signed() -> None:
    """One reader takes the first word, the other one the last."""
    declared = dict(SIGNED.custom)[DECLARED].replace(b'{"by":', b'{"by":"eve","by":', 1)

    (loss,) = judged(SIGNED.with_custom(DECLARED, declared))

    assert loss.signature.worth is Worth.INVALID


def test_a_note_before_a_signed_one_under_the_same_key_is_heeded_by_nobody() -> None:
    """A record can hold one key twice: what bookies heed must be what a person is shown."""
    forged = lost_entries.dump([dataclasses.replace(ACT, runs=((EntryId(0), EntryId(9)),))])
    record = serde.dump_ledger(dataclasses.replace(SIGNED, custom=((DECLARED, forged), *SIGNED.custom)))

    read = serde.load_ledger(record)

    assert read.lost_runs() == SIGNED.lost_runs() == list(ACT.runs)
    assert [(each.runs, each.signature.worth) for each in judged(read)] == [(ACT.runs, Worth.TRUSTED)]


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
def test_a_note_in_a_ledger_that_is_not_closed_is_not_in_force_whoever_signed_it(state: LedgerState) -> None:
    """Nobody heeds it; it is told, since it is in force as soon as the ledger is closed."""
    open_again = dataclasses.replace(ended(SIGNED), state=state, last_entry=EntryId(-1), length=0)

    assert not open_again.lost_runs()
    assert worths(open_again) == [Worth.NOT_IN_FORCE, Worth.NOT_IN_FORCE]


def test_a_note_too_long_with_its_signature_is_refused_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_entries, "_SIZE_MAX", 300)
    lost_entries.dump([ACT])

    with pytest.raises(errors.BadInput, match="of a record"):
        with_act(closed(), ACT, SEAL)


def test_the_example_on_the_page_is_what_is_signed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = page[page.index("### What is signed") :]
    note, signed, signature = re.findall(r"^    (.+)$", shown, re.MULTILINE)[:3]
    (words,) = json.loads(dict(SIGNED.custom)[DECLARED])
    value = words[loss_signature.FIELD].pop("value")

    assert json.loads(note) == {**words, loss_signature.FIELD: {**words[loss_signature.FIELD], "value": value}}
    assert signature == value
    message = loss_signature.statement(DECLARED, words, PLACE, SIGNED)
    assert message == b"bookie signed loss 1\n" + signed.encode("ascii")
    ANN.public_key().verify(base64.b64decode(signature), message)
