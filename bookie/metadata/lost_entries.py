"""The note in a closed ledger's record of the entries that a person declared lost, since no bookie has them. Pure.

JSON in the custom metadata, so that Java's clients keep it as it is: a list of acts, each with the fields of `Act`, and
with `entries`: groups (first start, last start, size, period), as bookies list them, since of a striped ledger every
third entry may be lost. Whoever makes a ledger writes its custom metadata too. So what cannot be read, or says too
much, declares nothing: the entries stay owed. Rule: spec/metadata.md#M57.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, IdRange

KEY = "bookie.lost-entries"
# Of one ledger. Whoever counts what a bookie should hold counts from one run to the next.
RUNS_MAX = 65_536
_SIZE_MAX = 512 << 10  # a record must fit into a node of the metadata store, of 1 MiB

Group = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Act:
    """One declaration. `runs`: inclusive, ascending, apart from each other. `tool`: the program that made it; `claims`:
    what the person said where nothing proves it; `gone`: of the bookies, those that were forgotten (the others serve,
    and said that they may have lost it). These three are empty in notes of before."""

    by: str
    reason: str
    at_ms: int
    bookies: tuple[BookieId, ...]
    runs: tuple[IdRange, ...]
    tool: str = ""
    claims: tuple[str, ...] = ()
    gone: tuple[BookieId, ...] = ()

    @property
    def count(self) -> int:
        """Return how many entries it declares lost."""
        return count(self.runs)


def count(runs: Iterable[IdRange]) -> int:
    """Return how many entries are in `runs`."""
    return sum(last - first + 1 for first, last in runs)


@functools.lru_cache(maxsize=2)
def runs_of(value: bytes) -> tuple[IdRange, ...]:
    """Return all runs of a note, as `merged`. Whoever looks at a ledger asks once for each of its bookies."""
    return tuple(merged(load(value)))


def load(value: bytes) -> tuple[Act, ...]:
    """Return the acts in a note, the first one first; none where it is not such a note, is longer than one of ours, or
    has more than RUNS_MAX runs."""
    if len(value) > _SIZE_MAX:
        return ()
    try:
        acts = tuple(_act(one) for one in json.loads(value))
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()
    return acts if sum(len(each.runs) for each in acts) <= RUNS_MAX else ()


def dump(acts: Sequence[Act]) -> bytes:
    """Return the note. Raises BadInput when it declares more than a record may."""
    return _dump(acts, [said(each) for each in acts])


def added(value: bytes | None, act: Act, words: Mapping[str, object]) -> bytes:
    """Return the note with one more act, whose `words` are `said(act)`, perhaps signed. Those before it stay as they
    are, in every word: some may be signed. `value`: the note that stands; None, or one that declares nothing, begins
    anew. Raises BadInput when it declares more than a record may."""
    before = load(value) if value is not None else ()
    kept = json.loads(value) if value is not None and before else []
    return _dump((*before, act), [*kept, words])


def said(act: Act) -> dict[str, object]:
    """Return the act as the note has it: what JSON can say, in lists and not in tuples."""
    return {
        "by": act.by,
        "reason": act.reason,
        "atMs": act.at_ms,
        "bookies": list(act.bookies),
        "tool": act.tool,
        "claims": list(act.claims),
        "gone": list(act.gone),
        "entries": [list(group) for group in _groups(act.runs)],
    }


def _dump(acts: Sequence[Act], words: Sequence[Mapping[str, object]]) -> bytes:
    if any(not _is_text(each.by + each.reason) for each in acts):
        raise errors.BadInput("who declares entries lost, or why, is not text (UTF-8): say it in other characters")
    value = json.dumps(words, separators=(",", ":")).encode()
    if len(value) > _SIZE_MAX or load(value) != tuple(acts):
        raise errors.BadInput(
            f"the lost entries are {sum(len(each.runs) for each in acts)} runs, and {len(value)} bytes of a record:"
            f" more than {RUNS_MAX} runs, or {_SIZE_MAX} bytes; save what is left of the ledger in another one, and"
            " delete it"
        )
    return value


def merged(acts: Iterable[Act]) -> list[IdRange]:
    """Return the runs of all acts: ascending, none touching the next."""
    found: list[IdRange] = []
    for first, last in sorted(run for act in acts for run in act.runs):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _act(said: dict[str, object]) -> Act:
    bookies, groups, at_ms = said["bookies"], said["entries"], said["atMs"]
    if not (isinstance(bookies, list) and isinstance(groups, list) and type(at_ms) is int):
        raise TypeError
    by, reason, tool = str(said["by"]), str(said["reason"]), str(said.get("tool", ""))
    claims, gone = said.get("claims", []), said.get("gone", [])
    if not (isinstance(claims, list) and isinstance(gone, list)):
        raise TypeError
    if not _is_text("".join([by, reason, tool, *(str(one) for each in (bookies, claims, gone) for one in each)])):
        raise ValueError
    runs: list[IdRange] = []
    for group in groups:
        first, last_start, size, period = group
        if not (type(first) is type(last_start) is type(size) is type(period) is int):
            raise TypeError
        if not (0 <= first <= last_start and size >= 1 and last_start + size <= 1 << 63 and period >= 0):
            raise ValueError
        times = (last_start - first) // period + 1 if period else 1  # no `len`: it takes no range this long
        if len(runs) + times > RUNS_MAX:
            raise ValueError
        starts = (first + number * period for number in range(times))
        runs += [(EntryId(start), EntryId(start + size - 1)) for start in starts]
    named, forgotten = (tuple(BookieId(str(one)) for one in each) for each in (bookies, gone))
    return Act(by, reason, at_ms, named, tuple(runs), tool, tuple(str(one) for one in claims), forgotten)


def _is_text(words: str) -> bool:
    """Return False for half of a pair of surrogates, which JSON takes and nobody can print."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return True


def _groups(runs: Iterable[IdRange]) -> Iterator[Group]:
    """Yield the runs, those of one size in one step together."""
    group: Group | None = None
    for first, last in runs:
        size = last - first + 1
        if group is not None:
            start, last_start, known_size, period = group
            if known_size == size and period in (0, first - last_start):
                group = (start, first, size, first - last_start)
                continue
            yield group
        group = (first, first, size, 0)
    if group is not None:
        yield group
