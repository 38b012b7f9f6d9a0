"""Writes protobuf's text form exactly as Java does, for cookies, repair records and old ledger metadata.

Python's own printer escapes differently (`\\007` for `\\a`), so this module writes and the library parses. Nobody may
add a field to these records: Java's parser refuses fields that it does not know. Rule: spec/metadata.md#M13.
"""

from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

from bookie.base import errors
from bookie.base.text import one_line

_ESCAPES = {
    0x07: "\\a",
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0B: "\\v",
    0x0C: "\\f",
    0x0D: "\\r",
    0x22: '\\"',
    0x27: "\\'",
    0x5C: "\\\\",
}


def escape(data: bytes) -> str:
    """Return `data` for between quotes: printable ASCII as is, the rest as short escapes or three octal digits."""
    return "".join(_ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte <= 0x7E else f"\\{byte:03o}") for byte in data)


def dump(message: Message) -> bytes:
    """Return `message` in text form: fields by number, two spaces of indent, a line feed after each line."""
    return "".join(_lines(message, "")).encode("ascii")


def load(data: bytes, message: Message, what: str) -> None:
    """Fill `message` from its text form. Raises BadInput naming `what`, also when a required field is missing."""
    try:
        text_format.Parse(data.decode("utf-8"), message)
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise errors.BadInput(f"{what} cannot be read: {one_line(error)}") from error
    if not message.IsInitialized():
        raise errors.BadInput(f"{what} cannot be read: a required field is missing")


def _lines(message: Message, indent: str) -> list[str]:
    lines: list[str] = []
    for field, value in message.ListFields():
        for item in value if field.is_repeated else [value]:
            if field.message_type is not None:
                lines += [f"{indent}{field.name} {{\n", *_lines(item, indent + "  "), f"{indent}}}\n"]
            else:
                lines.append(f"{indent}{field.name}: {_scalar(field, item)}\n")
    return lines


def _scalar(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, str):
        value = value.encode("utf-8")
    return f'"{escape(value)}"' if isinstance(value, bytes) else str(value)
