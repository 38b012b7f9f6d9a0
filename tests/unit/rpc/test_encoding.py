"""One vocabulary: `ports.admin` says what `admin.proto` carries, and nothing is lost between the two."""

import dataclasses
import enum
import typing
from typing import Any

import pytest

from bookie.base.errors import BadInput
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.ports import admin as port
from bookie.ports.admin import Contents, MountProof, MountReport, Sentinel, State, StorageReport, Verdict, VolumeReport
from bookie.rpc import admin_pb2 as proto
from bookie.rpc import calls, encoding

KINDS = sorted(encoding.MESSAGES, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", list(encoding.ENUMERATIONS), ids=lambda kind: kind.__name__)
def test_an_enumeration_has_the_words_of_the_proto(kind: type[enum.Enum]) -> None:
    ours = {member.value for member in kind} | ({"VERDICT_UNSPECIFIED"} if kind is Verdict else set())

    assert ours == set(encoding.ENUMERATIONS[kind].keys())


def test_every_enumeration_and_message_of_the_proto_has_its_words_here() -> None:
    file = proto.DESCRIPTOR
    nested = [one for message in file.message_types_by_name.values() for one in message.enum_types]
    enumerations = {one.full_name for one in (*file.enum_types_by_name.values(), *nested)}
    messages = {name for name in file.message_types_by_name if not name.endswith(("Request", "Reply", "Members"))}

    known = {kind.DESCRIPTOR.full_name for kind in encoding.ENUMERATIONS.values()}
    asked = (
        "SetModeRequest.Mode",
        "CollectGarbageRequest.Compaction",
        "DrainRequest.Action",
        "DrainRequest.OpenLedgers",
        "FillHolesRequest.Action",
    )
    requests = {f"bookie.admin.v1.{name}" for name in asked}
    assert enumerations == known | requests
    assert messages == {message.DESCRIPTOR.name for message in encoding.MESSAGES.values()}
    assert {kind.name for kind in port.Compaction} == set(proto.CollectGarbageRequest.Compaction.keys())
    assert {kind.name for kind in port.DrainAction} | {"ACTION_UNSPECIFIED"} == set(proto.DrainRequest.Action.keys())
    assert {kind.name for kind in port.OpenLedgers} == set(proto.DrainRequest.OpenLedgers.keys())
    actions = {kind.value for kind in port.FillAction} | {"ACTION_UNSPECIFIED"}
    assert actions == set(proto.FillHolesRequest.Action.keys())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_value_has_the_fields_of_its_message(kind: Any) -> None:
    ours = {field.name for field in dataclasses.fields(kind)} - set(encoding.NEVER_SENT)

    assert ours == set(encoding.MESSAGES[kind].DESCRIPTOR.fields_by_name)


def filled(kind: Any, seed: int = 1) -> Any:
    """A value with something to lose in every field."""
    hints = typing.get_type_hints(kind)
    made = {}
    for number, field in enumerate(dataclasses.fields(kind), seed):
        if field.name not in encoding.NEVER_SENT:
            made[field.name] = _filled(hints[field.name], number)
    return kind(**made)


def _filled(hint: Any, number: int) -> Any:
    if arguments := typing.get_args(hint):
        one = _filled(arguments[0], number)
        return (one,) if typing.get_origin(hint) is tuple else one
    hint = getattr(hint, "__supertype__", hint)
    if dataclasses.is_dataclass(hint):
        return filled(hint, number)
    if issubclass(hint, enum.Enum):
        return list(hint)[-1]
    return True if hint is bool else hint(number)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_is_lost_as_a_message_or_as_json(kind: Any) -> None:
    value = filled(kind)

    carried = encoding.MESSAGES[kind].FromString(encoding.encode(value).SerializeToString())

    assert encoding.decode(kind, carried) == value
    assert encoding.from_json(kind, encoding.to_json(value)) == value


@pytest.mark.parametrize("verdict", [None, *Verdict])
def test_every_verdict_comes_across(verdict: Verdict | None) -> None:
    report = StorageReport(BookieId("b"), "pod", State.HELD, verdict, "why")

    assert encoding.decode(StorageReport, encoding.encode(report)) == report


def test_words_of_a_newer_bookie_are_no_words_we_know() -> None:
    volume = proto.VolumeReport(contents=99, mount=proto.Mount(proof=99))  # type: ignore[arg-type]
    newer = proto.StorageReport(state=99, verdict=99, volumes=[volume])  # type: ignore[arg-type]

    found = encoding.decode(StorageReport, newer)

    assert (found.state, found.verdict) == (State.UNSPECIFIED, None)
    assert (found.volumes[0].contents, found.volumes[0].mount.proof) == (Contents.UNSPECIFIED, MountProof.UNSPECIFIED)
    assert found.volumes[0].sentinel is None


@pytest.mark.parametrize(
    "answer",
    [
        proto.RepairStatus(bytes_per_second=float("nan")),
        proto.RepairStatus(bytes_per_second=float("inf")),
        proto.DrainStatus(bytes_per_second=-1e300),
        proto.RepairStatus(incarnation=(1 << 64) - 1),
        proto.StorageReport(volumes=[proto.VolumeReport(mount=proto.Mount(total_bytes=1 << 63))]),
    ],
    ids=lambda answer: str(answer).strip()[:40],
)
def test_a_number_that_nobody_can_store_is_refused(answer: Any) -> None:
    """A rate that is no number ended each pass of an operator; one of 64 bits without a sign has no place in a
    status."""
    (kind,) = (one for one, message in encoding.MESSAGES.items() if message is type(answer))

    with pytest.raises(BadInput, match="64 bits"):
        encoding.decode(kind, answer)


def test_the_greatest_numbers_that_ours_say_are_read() -> None:
    answer = proto.BlockedLedger(ledger_id=(1 << 63) - 1)

    assert encoding.decode(port.BlockedLedger, answer).ledger_id == (1 << 63) - 1


def test_a_mode_that_a_newer_bookie_has_is_no_word_we_know() -> None:
    reply = proto.SetModeReply(state=99)  # type: ignore[arg-type]

    assert calls.end_turn(operator_epoch=1).read(reply) is State.UNSPECIFIED


def test_a_number_that_an_older_bookie_does_not_send_is_not_known_and_not_zero() -> None:
    older = encoding.decode(StorageReport, proto.StorageReport(bookie_id="b"))
    nothing_held = StorageReport(BookieId("b"), "pod", State.SERVING, None, "", garbage_held_ledgers=0)
    carried = proto.StorageReport.FromString(encoding.encode(nothing_held).SerializeToString())

    assert older.garbage_held_ledgers == -1
    assert encoding.decode(StorageReport, carried).garbage_held_ledgers == 0


def test_json_has_every_field_and_numbers_as_numbers() -> None:
    sentinel = Sentinel("i", BookieId("b"), "ledgers", "l0", Incarnation(2**40), BootEpoch(3))
    mount = MountReport(MountProof.PROVEN, total_bytes=2**41)
    volumes = (
        VolumeReport("l0", "ledgers", "/data", mount, Contents.VALID, sentinel),
        VolumeReport("j0", "journal", "/data", mount, Contents.STALE),
    )

    shown = encoding.to_json(StorageReport(BookieId("b"), "", State.HELD, None, "", volumes=volumes, ledger_count=7))

    assert (shown["state"], shown["verdict"], shown["ledgerCount"]) == ("HELD", "VERDICT_UNSPECIFIED", 7)
    assert shown["volumes"][0]["sentinel"]["incarnation"] == 2**40
    assert shown["volumes"][0]["mount"]["totalBytes"] == 2**41
    assert shown["volumes"][1]["contents"] == "STALE_CONTENTS"
    assert "sentinel" not in shown["volumes"][1]


def test_fields_stand_in_the_order_of_the_proto_whatever_is_zero() -> None:
    seen = [encoding.to_json(port.DrainStatus(ledgers_left=left, is_empty=not left)) for left in (0, 3)]

    assert list(seen[0]) == list(seen[1]) == [each.json_name for each in proto.DrainStatus.DESCRIPTOR.fields]
