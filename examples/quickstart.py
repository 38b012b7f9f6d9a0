"""Write a ledger, read it back, delete it.

bookie local --bookies 3 --data /tmp/fleet          # in another terminal; prints the URI
python examples/quickstart.py zk+hierarchical://127.0.0.1:2181/ledgers
"""

import asyncio
import sys

from bookie.base import errors
from bookie.connect import connect


async def main(uri: str) -> None:
    async with connect(uri) as client:
        async with await client.create(password=b"secret") as writer:
            for number in range(10):
                await writer.append(f"entry {number}".encode())
            await writer.append_many([b"many"] * 1000)
        print(f"ledger {writer.id} is closed at entry {writer.last_confirmed}")

        async with await client.open(writer.id, b"secret") as reader:
            for entry in await reader.read(0, 9):
                print(entry.entry_id, entry.payload.decode())
            total = sum([len(entry.payload) async for entry in reader.read_stream(0, reader.last_entry)])
            print(f"{reader.last_entry + 1} entries, {total} bytes")

        await client.delete(writer.id)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        asyncio.run(main(sys.argv[1]))
    except errors.BookieError as error:
        sys.exit(str(error))
