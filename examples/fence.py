"""Take a log over from a writer that may still be alive: open with recovery, and the old writer cannot add any more.

python examples/fence.py zk+hierarchical://127.0.0.1:2181/ledgers
"""

import asyncio
import sys

from bookie.base import errors
from bookie.connect import connect


async def main(uri: str) -> None:
    async with connect(uri) as old, connect(uri) as new:
        writer = await old.create()
        last = -1
        for number in range(10):
            last = await writer.append(f"from the old writer {number}".encode())
        print(f"the old writer has {last} confirmed")

        async with await new.open(writer.id) as reader:
            print(f"the new reader closed the ledger at entry {reader.last_entry}")
            assert reader.last_entry >= last

        try:
            await writer.append(b"too late")
        except (errors.LedgerFenced, errors.LedgerClosed) as error:
            print(f"the old writer is told: {error}")
        else:
            raise AssertionError("the old writer was not fenced")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        asyncio.run(main(sys.argv[1]))
    except errors.BookieError as error:
        sys.exit(str(error))
