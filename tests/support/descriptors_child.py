"""A process whose descriptors run out under a store on the real disk. Prints one line of JSON: what it met.

python descriptors_child.py DIRECTORY JOURNAL_DATA(0|1)
"""

import asyncio
import json
import os
import resource
import sys

import storage_child
from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.runtime.world import open_world
from bookie.storage import restart
from bookie.storage.store import EntryStore
from storage_support import KEY, Outcome, entry

PAYLOAD = bytes(30_000)
COUNT = 200  # so many bytes roll journals and entry logs several times
BACKLOG = 90


class Shortage:
    """No descriptor is left from `begin` to `end`."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def begin(self) -> None:
        used = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        self.fill()

    def fill(self) -> None:
        """Take what has become free since: the store gives up handles that it does not need now."""
        try:
            while True:
                self.held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return

    def end(self) -> None:
        for fd in self.held:
            os.close(fd)
        self.held = []


def put(store: EntryStore, entry_id: int) -> Outcome:
    outcome = Outcome()
    body = entry(3, entry_id, payload=PAYLOAD)
    store.add(LedgerId(3), [EntryId(entry_id)], [body], KEY, is_recovery=False, done=outcome)
    return outcome


async def met_by_flushes(store: EntryStore, shortage: Shortage) -> str:
    """What a flush meets that needs a descriptor, each of which is taken as soon as it is given up."""
    for _ in range(50):
        shortage.fill()
        try:
            async with asyncio.timeout(5):
                await store.flush()
        except (BookieError, TimeoutError) as error:
            return type(error).__name__
        store.add_copied(LedgerId(3), EntryId(0), entry(3, 0, payload=PAYLOAD), KEY)
    return "flushed"


async def main(directory: str, *, journal_data: bool) -> dict[str, object]:
    failures: list[str] = []
    options = storage_child.options_in(directory, journal_data=journal_data)
    async with open_world() as world:
        store = await restart.open_store(options, world, fail=lambda error: failures.append(str(error)))
        for entry_id in range(COUNT):
            await put(store, entry_id).wait()
            if entry_id % 10 == 9:
                await store.flush()
        shortage = Shortage()
        shortage.begin()
        refused: list[str] = []
        outcomes: list[Outcome] = []
        for entry_id in range(COUNT, COUNT + BACKLOG):
            try:
                outcomes.append(put(store, entry_id))
            except BookieError as error:
                refused.append(type(error).__name__)
                break
            await asyncio.sleep(0.01)
        flushed = await met_by_flushes(store, shortage)
        reads: dict[str, int] = {}
        for found in await store.read_many(LedgerId(3), [EntryId(entry_id) for entry_id in range(60)]):
            word = type(found).__name__ if isinstance(found, BookieError) else "read"
            reads[word] = reads.get(word, 0) + 1
        shortage.end()
        async with asyncio.timeout(30):
            for outcome in outcomes:
                await outcome.wait()
            while True:
                try:
                    await store.flush()
                    break
                except errors.OutOfResources:
                    await asyncio.sleep(0.2)
        later = put(store, COUNT + BACKLOG)
        await later.wait()
        acknowledged = COUNT + sum(outcome.is_ok for outcome in outcomes)
        was_clean = await store.close()
    async with open_world() as world:
        store = await restart.open_store(options, world, fail=lambda error: failures.append(str(error)))
        runs = await store.entry_ranges(LedgerId(3))
        await store.close()
    return {
        "failures": failures,
        "refused": refused,
        "flushed": flushed,
        "reads": reads,
        "failed": [str(outcome.error) for outcome in outcomes if outcome.error],
        "acknowledged": acknowledged,
        "later": later.is_ok,
        "was_clean": was_clean,
        "runs": runs,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], journal_data=sys.argv[2] == "1"))))
