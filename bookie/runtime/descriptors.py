"""Raises this process's limit of descriptors, and keeps enough of them for its files.

A bookie that has none left cannot open a log or an index file; connections of strangers must not use them up.
"""

import contextlib
import resource

# A RocksDB has at most 512 files open (`runtime.rocksdb`); logs, journals and what both do when they roll over.
_OF_A_DIRECTORY = 640
# Listeners, the metadata store, HTTP and gRPC, the other bookies, pipes of the process.
_OF_THE_PROCESS = 384
# Nobody has more connections than this, however many descriptors there are.
_LIMIT_MAX = 1 << 20


def raise_limit() -> int:
    """Raise the soft limit to the hard one; return how many descriptors this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, _LIMIT_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def for_connections(limit: int, directories: int) -> int:
    """Return how many of `limit` descriptors connections may take, so that enough remain for a bookie with so many
    `directories`; half of a small limit."""
    reserve = _OF_THE_PROCESS + directories * _OF_A_DIRECTORY
    return max(1, limit - min(reserve, limit // 2))
