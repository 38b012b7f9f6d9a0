"""Which formats on disk this program reads, and which it writes: what an operator compares before a bookie comes back
with another program (docs/decisions/0023). Pure.

A kind that one of two programs does not name is not compared. So whatever an older program must not miss raises the
number of a kind that it names, as a new kind of row raises the index's (`ledgers`).
"""

from bookie.ports.admin import DiskFormat
from bookie.storage import partition
from bookie.storage.entrylog import format as log_format
from bookie.storage.journal import format as journal_format


def known(*, has_history: bool, may_hold_touches: bool = False) -> tuple[DiskFormat, ...]:
    """Return each kind with the formats that this program reads, and the one that it writes on its volumes.
    `has_history`: a directory was added to them, so that their indexes are of the grown format. `may_hold_touches`: the
    journals do, or a file of an earlier life that did is still there."""
    grown = partition.GROWN_FORMAT_VERSION
    touched = journal_format.TOUCH_VERSION
    return (
        DiskFormat("journal", journal_format.VERSION, touched, touched if may_hold_touches else journal_format.VERSION),
        DiskFormat("entry log", log_format.VERSION, log_format.VERSION, log_format.VERSION),
        DiskFormat("index", partition.FORMAT_VERSION, grown, grown if has_history else partition.FORMAT_VERSION),
        # How many flags there are that keep programs away which do not know them: any may stand after a crash.
        DiskFormat("index flags", 0, len(partition.FLAGS), len(partition.FLAGS)),
    )
