"""Text that others wrote: checked where a protobuf message brings it, and made safe for a line of the log."""

from bookie.base.errors import BadInput


def checked(value: object, what: str) -> str:
    """Return `value`, a string field of a parsed message. Raises BadInput naming `what` when the value is not text:
    for a string of proto2 the parser accepts any bytes, and then hands out bytes."""
    if not isinstance(value, str):
        raise BadInput(f"{what} is not text (UTF-8): {value!r}")
    return value


_SHOWN_MAX = 300


def one_line(value: object) -> str:
    """Return `value` as text for one line of the log: escaped and cut, so that no stranger can forge a line."""
    shown = str(value)
    cut = shown[:_SHOWN_MAX]
    told = cut if cut.isprintable() else cut.encode("unicode_escape").decode("ascii")
    return told if len(shown) <= _SHOWN_MAX else f"{told} [{len(shown)} characters]"
