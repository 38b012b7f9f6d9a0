"""kill -9 of a real bookie without entry data in its journal: what a replicator was answered is there afterwards.

Whoever sent a recovery add that is not urgent publishes this bookie as one that has the entry, and forgets where it
came from. What a writer was answered from memory may be gone, and is unknown then, never absent.
"""

from pathlib import Path

import pytest

import hostile_support
import local_support
from bookie import blocking
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire.digest import Digest, DigestType
from bookie.wire.messages import AddRequest, ReadRequest, ReadResponse

pytestmark = pytest.mark.slow

DIGEST = Digest(DigestType.CRC32C, b"secret")
WRITTEN, COPIED = range(20), range(20, 40)
GONE = Status.EUNKNOWNLEDGERSTATE


def body(ledger_id: LedgerId, number: int) -> bytes:
    return b"".join(DIGEST.seal(ledger_id, EntryId(number), -1, 7 * (number + 1), b"payload"))


def read(port: int, ledger_id: LedgerId, number: int) -> tuple[Status, bytes]:
    answer = hostile_support.ask(port, ReadRequest(1, 3, ledger_id, EntryId(number)))
    assert isinstance(answer, ReadResponse)
    return answer.status, bytes(answer.body or b"")


def test_copies_outlive_a_kill_and_what_does_not_is_never_called_absent(tmp_path: Path) -> None:
    arguments = ("--journal-write-data", "false")
    with local_support.fleet(tmp_path / "data", tmp_path / "fleet.log", bookies=1, arguments=arguments) as fleet:
        (bookie,) = fleet.bookies
        with blocking.connect(fleet.uri) as client:
            writer = client.create(ensemble_size=1, write_quorum=1, ack_quorum=1, password=b"secret")
            for _ in WRITTEN:
                writer.append(b"written")
            for number in COPIED:
                add = AddRequest(number, 3, writer.id, EntryId(number), DIGEST.master_key, body(writer.id, number))
                add.is_recovery = True
                assert hostile_support.ask(bookie.port, add).status is Status.EOK
            local_support.kill(bookie)
            ledger_id = writer.id
        with local_support.again(bookie):
            copied = [read(bookie.port, ledger_id, number) for number in COPIED]
            written = {read(bookie.port, ledger_id, number)[0] for number in (*WRITTEN, COPIED[-1] + 1)}

    assert copied == [(Status.EOK, body(ledger_id, number)) for number in COPIED]
    assert written <= {Status.EOK, GONE}
