"""Length-prefixed frames: u32 big-endian N, then N bytes. Both protocols, both directions (wire-protocol.md, 1).

Frames come out as views of what was read: no copy while a frame lies within one chunk.
"""

import struct
from collections.abc import Sequence

from bookie.base.errors import BadInput
from bookie.base.units import MIB
from bookie.wire.messages import Buffer

# nettyMaxFrameSizeBytes: counts the prefix, so the longest legal N is four less.
FRAME_LIMIT_BYTES = 5 * MIB
PREFIX_SIZE = 4

_PREFIX = struct.Struct(">I")
_size_at = _PREFIX.unpack_from


class FrameSplitter:
    """Turns chunks of any size into frames. After it raised, the stream is lost: close it."""

    __slots__ = ("_limit_bytes", "_needed_bytes", "_pieces", "_pieces_bytes")

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: list[Buffer] = []  # the beginning of one frame that is not whole yet
        self._pieces_bytes = 0
        self._needed_bytes = PREFIX_SIZE  # how much of it must be there before looking again

    def feed(self, chunk: Buffer) -> list[memoryview]:
        """Return the payloads of all frames that are whole now; they borrow `chunk`, which must not change.

        Raises BadInput for an empty frame and, as soon as the length is seen, for one beyond the limit.
        """
        if self._pieces:
            self._pieces.append(chunk)
            self._pieces_bytes += len(chunk)
            if self._pieces_bytes < self._needed_bytes:
                return []
            chunk = b"".join(self._pieces)
            self._pieces.clear()
            self._pieces_bytes = 0
        view = memoryview(chunk)
        available = len(view)
        frames: list[memoryview] = []
        start = 0
        needed = PREFIX_SIZE
        while available - start >= PREFIX_SIZE:
            needed = PREFIX_SIZE + _size_at(view, start)[0]
            if needed > self._limit_bytes or needed == PREFIX_SIZE:
                raise BadInput(
                    f"a frame of {needed - PREFIX_SIZE} bytes is not legal here: 1 to "
                    f"{self._limit_bytes - PREFIX_SIZE} are (nettyMaxFrameSizeBytes)"
                )
            end = start + needed
            if end > available:
                break
            frames.append(view[start + PREFIX_SIZE : end])
            start = end
            needed = PREFIX_SIZE
        if start < available:
            # Own the rest: a view would keep the whole chunk alive, and the caller may reuse a bytearray.
            self._pieces.append(bytes(view[start:]))
            self._pieces_bytes = available - start
        self._needed_bytes = needed
        return frames


def frame(payload: Sequence[Buffer]) -> list[Buffer]:
    """Return `payload` with its prefix in front; the buffers are borrowed."""
    return [_PREFIX.pack(sum(map(len, payload))), *payload]
