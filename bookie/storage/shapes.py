"""Which ledger directory holds which ledger: how many directories there were, and from which ledger on. Pure.

    history   first ledger u64 | directories u32 ...      in an index, once a directory was added; else there is none

    (0, 2) (700, 3)     ledgers 0 to 699 live in directory id mod 2, for ever; those from 700 on in id mod 3

A ledger's directory follows from its id alone, whoever asks and whatever was lost: so nothing has to be moved when a
directory is added, and none may ever be looked for in two places (decisions/0019).
"""

import itertools
import struct
from collections.abc import Sequence
from typing import NamedTuple

from bookie.base import errors
from bookie.base.ids import LedgerId

_SHAPE = struct.Struct(">QI")


class Shape(NamedTuple):
    """From ledger `first` on there are so many `directories`, until the next shape says otherwise."""

    first: int
    directories: int


History = tuple[Shape, ...]


def plain(count: int) -> History:
    """Return the history of a store that always had `count` directories."""
    return (Shape(0, count),)


def dump(history: History) -> bytes:
    return b"".join(_SHAPE.pack(*shape) for shape in history)


def load(data: bytes, what: str) -> History:
    """Load a history. Raises CorruptFile, naming `what`, for one that could not have been written."""
    if not data or len(data) % _SHAPE.size:
        raise errors.CorruptFile(f"{what}: a history of directories of {len(data)} bytes; one shape has {_SHAPE.size}")
    history = tuple(Shape(*pair) for pair in _SHAPE.iter_unpack(data))
    grows = all(
        one.first <= two.first and one.directories < two.directories for one, two in itertools.pairwise(history)
    )
    if history[0].first or not history[0].directories or not grows:
        raise errors.CorruptFile(f"{what}: the history of directories {shown(history)} makes no sense")
    return history


def shown(history: History) -> str:
    """Return it as text: `2 directories, 3 from ledger 700 on`."""
    first, *later = history
    growth = [f"{shape.directories} from ledger {shape.first} on" for shape in later]
    return ", ".join([f"{first.directories} directories", *growth])


def grown(history: History, count: int, first: int) -> History:
    """Return the history with `count` directories from ledger `first` on; no ledger that is here may be `first` or
    above."""
    assert count > history[-1].directories
    return (*history, Shape(max(first, history[-1].first), count))


def agreed(found: Sequence[History | None], known: int = 0) -> History | None:
    """Return what holds, by what each directory's index says; None: all are new, or were lost.

    A shape is written into the index of the directory that it adds first, and before any ledger is put into that. So
    the word of the added directory counts only where no older one is left to ask: the change may never have been done,
    and ledgers been put into the old directories since. The word of one older directory is enough: from then on nobody
    starts in the old shape. `known`: so many directories are this bookie's by the metadata store, which is told last;
    of them each word counts, also where all older directories were set back. Raises CorruptFile when two contradict
    each other.
    """
    histories = [
        history[: _trusted(number, history, found, known)]
        for number, history in enumerate(found)
        if history is not None
    ]
    longest = max(histories, key=len, default=None)
    for history in histories:
        assert longest is not None
        if history != longest[: len(history)]:
            raise errors.CorruptFile(
                f"the indexes of two ledger directories contradict each other: {shown(history)}; {shown(longest)}."
                " Restore the one that was set back or exchanged, or treat its volume as lost"
            )
    return longest


def _trusted(number: int, history: History, found: Sequence[History | None], known: int) -> int:
    """Return how many shapes of the history of directory `number` are sure to have come into force."""
    for count, before in enumerate(history[:-1], 1):
        if number < before.directories or history[count].directories <= known:
            continue
        older = [other for other in found[: before.directories] if other is not None]
        if older and all(other[: count + 1] != history[: count + 1] for other in older):
            return count
    return len(history)


class Routing:
    """Tells the directory of a ledger. `first` and `count` are the newest shape's, for those who cannot wait for a
    call: at and above `first` it is `ledger_id % count`."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.first, self.count = history[-1]

    def number_of(self, ledger_id: LedgerId) -> int:
        """Return the number (from 0) of the directory that holds the ledger; any for a negative id, which none does."""
        for first, count in reversed(self.history):
            if ledger_id >= first:
                return ledger_id % count
        return ledger_id % self.history[0].directories
