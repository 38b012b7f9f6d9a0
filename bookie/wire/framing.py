"""Length-prefixed frames: u32 big-endian N, then N bytes. Both protocols, both directions (spec/wire.md#W1).

Frames come out as views of what was read: no copy while a frame lies within one chunk.
"""

import struct
from collections.abc import Sequence
from typing import Final

from bookie.base.errors import BadInput
from bookie.base.units import MIB
from bookie.wire.messages import Buffer

# nettyMaxFrameSizeBytes: counts the prefix, so the longest legal N is four less.
FRAME_LIMIT_BYTES: Final = 5 * MIB
PREFIX_SIZE: Final = 4

_PREFIX: Final = struct.Struct(">I")


def end_of_frame(data: Buffer, start: int, limit_bytes: int) -> int:
    """Return the offset after the frame that begins at `start`, 0 while its length has not arrived.

    The offset may lie beyond what has arrived. Raises BadInput for an empty frame and, as soon as its length is there,
    for a frame beyond the limit.
    """
    if len(data) - start < PREFIX_SIZE:
        return 0
    if isinstance(data, bytes):  # compiled, four times as fast as the call
        size = PREFIX_SIZE + (data[start] << 24 | data[start + 1] << 16 | data[start + 2] << 8 | data[start + 3])
    else:
        size = PREFIX_SIZE + int(_PREFIX.unpack_from(data, start)[0])
    if size > limit_bytes or size == PREFIX_SIZE:
        raise BadInput(
            f"a frame has {size - PREFIX_SIZE} bytes; 1 to {limit_bytes - PREFIX_SIZE} are legal here: send less at"
            " once, or raise nettyMaxFrameSizeBytes on both sides"
        )
    return start + size


class FrameSplitter:
    """Turns chunks of any size into frames. Once a method has raised, the stream is lost: close it.

    `feed` is all that most callers need. A caller with a loop of its own calls `complete`, then `keep` for the rest.
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
        begun, start = self.complete(chunk)
        frames = [memoryview(begun)[PREFIX_SIZE:]] if begun else []
        view = memoryview(chunk)
        while 0 < (end := end_of_frame(view, start, self.limit_bytes)) <= len(view):
            frames.append(view[start + PREFIX_SIZE : end])
            start = end
        self.keep(view, start)
        return frames

    @property
    def is_empty(self) -> bool:
        """Return True between two frames: the splitter keeps no part of the next one."""
        return not self._pieces

    @property
    def needed_bytes(self) -> int:
        """Return the size of the frame that has begun, as far as the splitter knows it; 0 between two frames."""
        return self._needed_bytes if self._pieces else 0

    @property
    def kept_bytes(self) -> int:
        """Return how many bytes of that frame have arrived."""
        return self._pieces_bytes if self._pieces else 0

    def complete(self, chunk: Buffer) -> tuple[bytes, int]:
        """Return the frame that began before `chunk` (empty if there is none, or if it is not whole yet), and the
        offset in `chunk` where the next frame begins. Raises BadInput as `end_of_frame` does.

        Copies only the frame that lies in both, not the chunk: under load nearly every chunk ends within a frame.
        """
        start = 0
        while self._pieces and start < len(chunk):
            piece = chunk[start : start + self._needed_bytes - self._pieces_bytes]
            start += len(piece)
            self._pieces.append(piece)
            self._pieces_bytes += len(piece)
            if self._pieces_bytes == self._needed_bytes:
                joined = b"".join(self._pieces)
                if len(joined) == end_of_frame(joined, 0, self.limit_bytes):
                    self._pieces.clear()
                    return joined, start
                self._pieces = [joined]  # its length, so far
                self._needed_bytes = end_of_frame(joined, 0, self.limit_bytes)
        return b"", start

    def keep(self, data: Buffer, start: int) -> None:
        """Keep what follows `start`, the beginning of a frame that is not whole, for the next `complete`."""
        if start < len(data):
            # Own it: a view would keep the whole chunk alive, and the caller may reuse a bytearray.
            self._pieces.append(bytes(data[start:]))
            self._pieces_bytes = len(data) - start
            self._needed_bytes = (end_of_frame(data, start, self.limit_bytes) or start + PREFIX_SIZE) - start


def frame(payload: Sequence[Buffer]) -> list[Buffer]:
    """Return `payload` with its prefix in front; the buffers are borrowed."""
    return [_PREFIX.pack(sum(map(len, payload))), *payload]
