"""Text out of protobuf messages."""

from bookie.base.errors import BadInput


def checked(value: object, what: str) -> str:
    """Return `value`, a string field of a parsed message. Raises BadInput, naming `what`, when it is no text: the
    parser takes any bytes for a string of proto2, and then hands out bytes."""
    if not isinstance(value, str):
        raise BadInput(f"{what} is no text: {value!r}")
    return value


_SHOWN_MAX = 300


def one_line(value: object) -> str:
    """Return `value` as text for one line of a log: what a stranger wrote ends no line, colours nothing, and is cut."""
    shown = str(value)
    cut = shown[:_SHOWN_MAX]
    told = cut if cut.isprintable() else cut.encode("unicode_escape").decode("ascii")
    return told if len(shown) <= _SHOWN_MAX else f"{told} [{len(shown)} characters]"
