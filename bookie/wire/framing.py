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


def end_of_frame(data: Buffer, start: int, limit_bytes: int) -> int:
    """Return the offset after the frame that begins at `start`, 0 while its length is not there.

    May lie beyond what has arrived. Raises BadInput for an empty frame and, as soon as the length is seen, for one
    beyond the limit.
    """
    if len(data) - start < PREFIX_SIZE:
        return 0
    size = PREFIX_SIZE + int(_size_at(data, start)[0])
    if size > limit_bytes or size == PREFIX_SIZE:
        raise BadInput(
            f"a frame of {size - PREFIX_SIZE} bytes is not legal here: 1 to "
            f"{limit_bytes - PREFIX_SIZE} are (nettyMaxFrameSizeBytes)"
        )
    return start + size


class FrameSplitter:
    """Turns chunks of any size into frames. After it raised, the stream is lost: close it.

    `feed` does all of it. Who reads frames in a loop of their own calls `join`, then `keep` with what was not whole.
    """

    __slots__ = ("_needed_bytes", "_pieces", "_pieces_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._pieces: list[Buffer] = []  # the beginning of one frame that is not whole yet
        self._pieces_bytes = 0
        self._needed_bytes = PREFIX_SIZE  # how much of it must be there before looking again

    def feed(self, chunk: Buffer) -> list[memoryview]:
        """Return the payloads of all frames that are whole now; they borrow `chunk`, which must not change.

        Raises BadInput as `end_of_frame` does.
        """
        view = memoryview(self.join(chunk))
        frames: list[memoryview] = []
        start = 0
        while 0 < (end := end_of_frame(view, start, self.limit_bytes)) <= len(view):
            frames.append(view[start + PREFIX_SIZE : end])
            start = end
        self.keep(view, start)
        return frames

    @property
    def is_empty(self) -> bool:
        """True between two frames: nothing of a next one is kept."""
        return not self._pieces

    def join(self, chunk: Buffer) -> Buffer:
        """Return what was kept with `chunk` behind it; empty while that is not one whole frame."""
        if not self._pieces:
            return chunk
        self._pieces.append(chunk)
        self._pieces_bytes += len(chunk)
        if self._pieces_bytes < self._needed_bytes:
            return b""
        joined = b"".join(self._pieces)
        self._pieces.clear()
        return joined

    def keep(self, data: Buffer, start: int) -> None:
        """Keep what follows `start`, the beginning of a frame that is not whole, for the next `join`."""
        if start < len(data):
            # Own it: a view would keep the whole chunk alive, and the caller may reuse a bytearray.
            self._pieces.append(bytes(data[start:]))
            self._pieces_bytes = len(data) - start
            self._needed_bytes = (end_of_frame(data, start, self.limit_bytes) or start + PREFIX_SIZE) - start


def frame(payload: Sequence[Buffer]) -> list[Buffer]:
    """Return `payload` with its prefix in front; the buffers are borrowed."""
    return [_PREFIX.pack(sum(map(len, payload))), *payload]
