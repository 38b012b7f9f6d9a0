"""Appends whole blocks past the system's cache (O_DIRECT), for data that nobody reads again soon.

Through the cache every byte costs a copy into a page, the page's bookkeeping and its write-back; on a machine whose
cores are all busy that was a good quarter of a bookie's processor time per add of 1 KiB (docs/SPEED.md), and the pages
pushed out what readers want.
"""

import mmap
import os
from collections.abc import Sequence

from bookie.base.units import KIB
from bookie.ports.disk import Buffer, bytes_to_block

_PIECE_BYTES = 2304 * KIB  # written at once: a checkpoint's batch and its heads
_JOIN_COUNT = 64  # buffers joined at once: few calls, and what was joined is still in the core's own cache


class BlockWriter:
    """Memory of one thread, aligned to blocks as the kernel wants it for direct writes."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, _PIECE_BYTES))

    def write(self, fd: int, offset: int, buffers: Sequence[Buffer]) -> int:
        """Write `buffers`, whole blocks in total, to `fd` from `offset`, where a block begins; return the offset after.

        Raises OSError; then any part may be written. EINVAL: the file system wants the bytes aligned otherwise.
        """
        memory = self._memory
        filled = 0
        for first in range(0, len(buffers), _JOIN_COUNT):
            data = memoryview(b"".join(buffers[first : first + _JOIN_COUNT]))
            while data:
                part = data[: _PIECE_BYTES - filled]
                memory[filled : filled + len(part)] = part
                filled += len(part)
                data = data[len(part) :]
                if filled == _PIECE_BYTES:
                    offset = _write_all(fd, offset, memory)
                    filled = 0
        assert not bytes_to_block(filled), f"{filled} bytes are no whole blocks"
        return _write_all(fd, offset, memory[:filled])


def _write_all(fd: int, offset: int, data: memoryview) -> int:
    while data:  # fewer at once: a disk that is full, or a signal
        count = os.pwrite(fd, data, offset)
        offset += count
        data = data[count:]
    return offset
