"""Follow a ledger while it is being written: two clients, one writes, one tails.

python examples/tail.py zk+hierarchical://127.0.0.1:2181/ledgers
"""

import asyncio
import sys

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.connect import connect

ENTRIES = 20


async def follow(uri: str, ledger_id: LedgerId) -> int:
    """Print every entry as it is confirmed, until the writer closes the ledger."""
    count = 0
    async with connect(uri) as client, await client.open_no_recovery(ledger_id) as reader:
        async for entry in reader.tail():
            print(f"read  {entry.entry_id}: {entry.payload.decode()}")
            count += 1
    return count


async def main(uri: str) -> None:
    async with connect(uri) as client:
        writer = await client.create()
        following = asyncio.create_task(follow(uri, writer.id))
        for number in range(ENTRIES):
            entry_id = await writer.append(f"tick {number}".encode())
            print(f"wrote {entry_id}")
            await asyncio.sleep(0.05)
        await writer.close()
        print(f"the reader saw {await following} of {ENTRIES} entries")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        asyncio.run(main(sys.argv[1]))
    except errors.BookieError as error:
        sys.exit(str(error))
