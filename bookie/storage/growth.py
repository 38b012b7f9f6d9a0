"""Adds ledger directories to a store: which shape the old indexes agree on, then the new shape, durably, in all.

    replay and checkpoint as before ──► the added indexes: history, marks ──► flush ──► the old ones: history ──► flush
                                                                                           └─► only now adds are taken

CRASH: until an old index has the new shape, the store is what it was: the added directories hold no ledger, and it may
start without them. From then on it starts in the old shape no more, so nothing with an id of the new shape can get into
an old directory; the next start that may finishes what is not written everywhere. Nothing is moved, so nothing can be
lost on the way. Must never: put a ledger anywhere, or take a directory that holds one for a new one.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX
from bookie.storage import partition as partition_module
from bookie.storage import shapes
from bookie.storage.journal.batch import JournalPosition
from bookie.storage.partition import Partition
from bookie.storage.shapes import History

log = logging.getLogger(__name__)

_RARE_FROM = LEDGER_ID_MAX // 2  # ids given in turn never come here; of ids drawn at random few are above it


@dataclass(frozen=True, slots=True)
class StartRules:
    """What integrity allows this start (`restart.open_store`)."""

    accept_loss: bool
    must_exist: bool
    grow_from: int | None


def begin(partitions: Sequence[Partition], journals: int, rules: StartRules) -> History:
    """Return the shape that holds until `finish`, and put it into new indexes of directories that it has.

    Raises RefusedToStart, CorruptFile for directories that are not this store's, or not as the settings say.
    """
    found = [_stored(partition) for partition in partitions]
    history = shapes.agreed(found, rules.grow_from or 0) or shapes.plain(len(partitions))
    for partition, stored in zip(partitions, found, strict=True):
        _check(partition, stored, history, rules, (partition.number, len(partitions), journals))
    if history[-1].directories != len(partitions) and rules.grow_from is None:
        raise errors.RefusedToStart(
            f"the store has {shapes.shown(history)}, the settings say {len(partitions)}; configure the old directories"
            " in their old order"
        )
    others = [partition for partition, stored in zip(partitions, found, strict=True) if stored is not None]
    for number, stored in enumerate(found[: history[-1].directories]):
        if stored is None and _is_added(number, rules) and not rules.accept_loss:
            partitions[number].marks = _common_marks(others)  # its adding was begun, and it was exchanged since
        elif stored is None:
            partition_module.begin_index(partitions[number].index, number=number, history=history, journals=journals)
    return history


def _stored(partition: Partition) -> History | None:
    return partition_module.stored_history(partition.index, f"the index of ledger directory {partition.number + 1}")


def _is_added(number: int, rules: StartRules) -> bool:
    return rules.grow_from is not None and number >= rules.grow_from


def _check(
    partition: Partition, stored: History | None, history: History, rules: StartRules, configured: tuple[int, int, int]
) -> None:
    """Refuse a directory that does not fit into `history`, unless something allows that."""
    number = partition.number
    if stored is None:
        if rules.must_exist and not _is_added(number, rules):
            raise errors.CorruptFile(
                f"the index of ledger directory {number + 1} is empty, though this volume has held one;"
                f" restore it, or {errors.TREAT_AS_LOST}"
            )
        return
    if _is_added(number, rules) and number >= history[-1].directories:
        return  # what it says is of an attempt that was given up, perhaps with more directories; it is made anew
    is_allowed = rules.accept_loss or rules.grow_from is not None
    if stored[-1].directories > configured[1] or (stored != history and not is_allowed):
        found = partition_module.stored_shape(partition.index)
        assert found is not None
        if found == configured:
            raise errors.RefusedToStart(
                f"ledger directories were being added ({shapes.shown(stored)}), and that did not come to its end;"
                " allow it again (allowStorageExpansion=true), or configure the old directories"
            )
        raise partition_module.other_shape(found, configured)


def _common_marks(others: Sequence[Partition]) -> tuple[JournalPosition, ...]:
    """Return where the replay of the others begins, for a directory that is added.

    No journal record before that is of a ledger that it may hold; without marks it would ask for files that are gone.
    """
    return tuple(min(marks) for marks in zip(*(other.marks for other in others), strict=True))


async def finish(partitions: Sequence[Partition], history: History, journals: int, *, beyond: int) -> History:
    """Return the shape with all `partitions`, once it is durable in all of them.

    `beyond`: an id above every ledger that the replayed journals name: a deleted one is in no index, and an added
    directory has older marks than its own may have had, so that the next replay would bring it back there. Raises
    CorruptFile when one to be added holds something, and what the disk raises.
    """
    old, added = partitions[: history[-1].directories], partitions[history[-1].directories :]
    if added:
        for partition in added:
            if partition.logs.ids or partition.index.greatest_ledger() is not None:
                raise errors.CorruptFile(
                    f"ledger directory {partition.number + 1} is to be added, but it holds ledgers; take it out of the"
                    " settings, or give an empty one"
                )
        history = shapes.grown(history, len(partitions), max(beyond, *map(_first_free, old)))
        log.info("ledger directories added count=%d first_ledger_id=%d", len(added), history[-1].first)
        if history[-1].first > _RARE_FROM:
            log.warning("added directories stay empty: ledgers with ids this great are rare id=%d", history[-1].first)
    # One may have this very shape from an attempt that was given up: its marks are of that time, too.
    unlike = [partition for partition in partitions if partition in added or _stored(partition) != history]
    fresh = [partition for partition in unlike if partition in added or _stored(partition) is None]
    for partition in fresh:
        others = [other for other in old if other not in fresh]
        partition.marks = _common_marks(others)
        partition_module.put_marks(partition.index, partition.marks)
        _examined(partition, others)
    # CRASH: the added ones first, so that an old one with the new shape proves that they have it too.
    for partition in (*fresh, *(partition for partition in unlike if partition not in fresh)):
        partition_module.begin_index(partition.index, number=partition.number, history=history, journals=journals)
        await partition.index.flush()
    return history


def _examined(added: Partition, others: Sequence[Partition]) -> None:
    """Give an added directory the others' doubt, as one that is over: what is left of theirs is of ledgers that are
    never here (`_first_free`), and integrity finds that no index lacks the doubt that its note names."""
    newest = max((other.table.doubt for other in others), key=lambda doubt: doubt.epoch)
    if newest.epoch:
        added.table.doubt = newest.examined_down_to(0)
        added.save_doubt(added.table.doubt)


def _first_free(partition: Partition) -> int:
    """Return an id above every ledger of this directory's index, and above those in doubt: of those the bookie may have
    lost all, and a directory that never had them would deny that."""
    greatest = partition.index.greatest_ledger()
    return max(-1 if greatest is None else greatest, partition.table.doubt.rest - 1) + 1
