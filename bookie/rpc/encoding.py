"""Translates the admin vocabulary (`bookie.ports.admin`) to messages of `admin.proto`, to JSON, and back. No other
module does.

Fields go by name, and a member of an enumeration by its value, which is its name in the proto. So a new field or
verdict needs no line here; a test holds vocabulary and proto equal.
"""

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from bookie.base import errors
from bookie.ports import admin as port
from bookie.rpc import admin_pb2 as proto

T = TypeVar("T")

MESSAGES: Mapping[type, type[Message]] = {
    port.StorageReport: proto.StorageReport,
    port.VolumeReport: proto.VolumeReport,
    port.MountReport: proto.Mount,
    port.Sentinel: proto.Sentinel,
    port.BlockedLedger: proto.BlockedLedger,
    port.Member: proto.Member,
    port.Grant: proto.Grant,
    port.RepairStatus: proto.RepairStatus,
    port.GarbageReport: proto.GarbageReport,
    port.ScrubReport: proto.ScrubReport,
    port.FillStatus: proto.FillStatus,
    port.BadEntry: proto.BadEntry,
    port.DrainStatus: proto.DrainStatus,
    port.References: proto.References,
    port.HeldBack: proto.HeldBack,
    port.MarkedLedgers: proto.MarkedLedgers,
    port.Aside: proto.Aside,
    port.DiskFormat: proto.DiskFormat,
}
ENUMERATIONS: Mapping[type[enum.Enum], Any] = {
    port.State: proto.State,
    port.Verdict: proto.Verdict,
    port.MountProof: proto.Mount.Proof,
    port.Contents: proto.Contents,
}
# What a bookie's own port knows of a caller is not for the caller to say.
NEVER_SENT = ("given_by",)
_NUMBER_END = 1 << 63


def encode(value: Any) -> Any:
    """Return a dataclass of the vocabulary as its message. A field that is None stays unset."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [encode(one) for one in value]
    if not dataclasses.is_dataclass(value):
        return value
    names = [field.name for field in dataclasses.fields(value) if field.name not in NEVER_SENT]
    return MESSAGES[type(value)](**{name: encode(getattr(value, name)) for name in names})


def decode(kind: type[T], message: Message) -> T:
    """Return the value that a message means. A word of a newer peer becomes UNSPECIFIED, or None where the vocabulary
    says None for that. Raises BadInput for a number that none of ours can be."""
    return kind(**{name: read(message, name) for name, read in _readers(kind).items() if _is_said(message, name)})


def _is_said(message: Message, name: str) -> bool:
    """Return False for an `optional` number that an older peer did not send: the vocabulary's default stands for it."""
    field = message.DESCRIPTOR.fields_by_name[name]
    return field.message_type is not None or not field.has_presence or message.HasField(name)


def to_json(value: Any) -> dict[str, Any]:
    """Return a message as protobuf's JSON, with every field in the order of the .proto text, and with numbers as
    numbers: people and scripts want them so."""
    message = encode(value)
    shown = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    return _with_numbers(shown, message.DESCRIPTOR)


def from_json(kind: type[T], found: Mapping[str, Any]) -> T:
    return decode(kind, json_format.ParseDict(found, MESSAGES[kind]()))


_Reader = Callable[[Any, str], Any]


@functools.cache
def _readers(kind: type) -> dict[str, _Reader]:
    """Return for each field of a dataclass the function that reads it from a message."""
    hints = typing.get_type_hints(kind)
    return {
        field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind) if field.name not in NEVER_SENT
    }


def _reader(hint: Any) -> _Reader:
    if typing.get_origin(hint) is tuple:
        of_one = _value(typing.get_args(hint)[0])
        return lambda message, name: tuple(map(of_one, getattr(message, name)))
    if isinstance(hint, types.UnionType):  # X | None
        of_present = _value(typing.get_args(hint)[0])
        return lambda message, name: of_present(getattr(message, name)) if _is_there(message, name) else None
    of_one = _value(hint)
    return lambda message, name: of_one(getattr(message, name))


def _is_there(message: Message, name: str) -> bool:
    field = message.DESCRIPTOR.fields_by_name[name]
    return message.HasField(name) if field.has_presence else bool(getattr(message, name))


def _value(hint: Any) -> Callable[[Any], Any]:
    if hint in MESSAGES:
        return functools.partial(decode, hint)
    if hint in ENUMERATIONS:
        return functools.partial(word, hint)
    return _check_number if getattr(hint, "__supertype__", hint) in (int, float) else lambda plain: plain


def _check_number(number: float) -> float:
    """Return `number`, if anything can be made of it: who asked stores it with 64 bits and a sign."""
    if not -_NUMBER_END <= number < _NUMBER_END:  # nor is what is no number
        raise errors.BadInput(f"it says {number!r} where a number of 64 bits is wanted")
    return number


def word(kind: type[enum.Enum], number: int) -> Any:
    """Return the member that `number` means; for one of a newer peer what 0 means."""
    by_number = _words(kind)
    return by_number.get(number, by_number[0])


@functools.cache
def _words(kind: type[enum.Enum]) -> dict[int, enum.Enum | None]:
    return {number: _member(kind, name) for name, number in ENUMERATIONS[kind].items()}


def _member(kind: type[enum.Enum], name: str) -> enum.Enum | None:
    """Return the enumeration's member of that name; None for the one that the vocabulary represents by None."""
    return next((member for member in kind if member.value == name), None)


def _with_numbers(found: dict[str, Any], descriptor: Any) -> dict[str, Any]:
    """Turn 64-bit numbers, which protobuf's JSON shows as text, back into numbers; and put the fields into one order:
    protobuf's has those that are 0 or empty last."""
    told: dict[str, Any] = {}
    for field in descriptor.fields:
        name = field.json_name
        if name not in found:
            continue
        value = found[name]
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            is_list = isinstance(value, list)
            items = [_with_numbers(item, field.message_type) for item in (value if is_list else [value])]
            told[name] = items if is_list else items[0]
        elif isinstance(value, str) and field.type not in (field.TYPE_STRING, field.TYPE_ENUM, field.TYPE_BYTES):
            told[name] = int(value)
        else:
            told[name] = value
    return told
