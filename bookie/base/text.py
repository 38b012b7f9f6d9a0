"""Text out of protobuf messages."""

from bookie.base.errors import BadInput


def checked(value: object, what: str) -> str:
    """Return `value`, a string field of a parsed message. Raises BadInput, naming `what`, when it is no text: the
    parser takes any bytes for a string of proto2, and then hands out bytes."""
    if not isinstance(value, str):
        raise BadInput(f"{what} is no text: {value!r}")
    return value
