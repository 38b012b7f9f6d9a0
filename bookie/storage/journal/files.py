"""Names of journal files, and which files a directory holds. A name gives the id; ids grow by one, without gaps."""

from bookie.ports.disk import Disk

SUFFIX = ".journal"


def path_of(directory: str, file_id: int) -> str:
    """Return the path of journal file `file_id` in `directory` (a `current` directory)."""
    return f"{directory}/{file_id:016x}{SUFFIX}"


async def list_ids(disk: Disk, directory: str) -> list[int]:
    """Return the ids of the journal files in `directory`, ascending; ignore other names."""
    ids: list[int] = []
    for name in await disk.list(directory):
        stem = name.removesuffix(SUFFIX)
        if stem != name and len(stem) == 16 and all(digit in "0123456789abcdef" for digit in stem):
            ids.append(int(stem, 16))
    return sorted(ids)
