"""The wiretap decodes what bookies say and reports a broken spec/bp46.md#S7 or spec/bp46.md#S8; on one bookie's wire,
message by message."""

import dataclasses

import pytest

from bookie.base.errors import Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.ports.network import Address
from bookie.sim.network import SimStream
from bookie.sim.oracle import LIFE
from bookie.sim.wiretap import Wiretap
from bookie.wire import digest, v3
from bookie.wire.entry import HEADER
from bookie.wire.messages import (
    AddRequest,
    AddResponse,
    ForceRequest,
    ForceResponse,
    ListEntriesRequest,
    ListEntriesResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
    WriteLacRequest,
)
from sim_support import Machine

ME = LedgerId(7)
BOOKIES = tuple(BookieId(f"bookie-{number}") for number in range(3))


class Wire:
    """Connections to bookie-1, and the stored metadata of one ledger."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.metadata: LedgerMetadata | None = new_ledger(
            ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=BOOKIES, digest_type=3, password=b""
        )
        self.replaced: list[str] = []  # whose process has a successor
        self.tap = Wiretap(self.reports.append, lambda ledger_id: self.metadata, self.replaced.__contains__)
        self.machine = Machine()
        self.stream = self.connect()
        self.txn = 0

    def connect(self) -> SimStream:
        fabric, life = self.machine.fabric, self.machine.loop.director
        return SimStream(fabric, life, "bookie-1", Address("client", 1), is_accepted=True)

    def streams(self) -> list[SimStream]:
        """New connections, one to each bookie."""
        fabric, life = self.machine.fabric, self.machine.loop.director
        return [SimStream(fabric, life, name, Address("client", 1), is_accepted=True) for name in BOOKIES]

    def ask(self, request: Request) -> int:
        self.txn += 1
        request.txn = self.txn
        self.tap.received(self.stream, b"".join(bytes(part) for part in v3.pack_request(request)))
        return self.txn

    def say(self, response: Response) -> None:
        self.tap.sent(self.stream, b"".join(bytes(part) for part in v3.pack_response(response)))

    def add(self, entry: int, *, status: Status = Status.EOK, is_recovery: bool = False) -> None:
        request = AddRequest(0, v3.VERSION, ME, EntryId(entry), b"", b"body", is_recovery=is_recovery)
        self.say(AddResponse(self.ask(request), v3.VERSION, status, ME, EntryId(entry)))

    def read(self, entry: int, status: Status, *, is_fencing: bool = False) -> None:
        request = ReadRequest(0, v3.VERSION, ME, EntryId(entry), b"", is_fencing=is_fencing)
        body = b"body" if status is Status.EOK else None
        self.say(ReadResponse(self.ask(request), v3.VERSION, status, ME, EntryId(entry), body, None, None))

    @property
    def rules(self) -> list[str]:
        return [report.partition(":")[0] for report in self.reports]


def test_a_bookie_must_keep_what_it_acknowledged_unless_only_a_replaced_process_of_it_did() -> None:
    wire = Wire()
    wire.add(1)
    wire.replaced.append("bookie-1")
    wire.add(1)
    wire.add(2)
    wire.add(3)
    wire.replaced.clear()
    wire.add(3)
    kept = [number for number in range(5) if wire.tap.must_keep("bookie-1", ME, EntryId(number))]
    assert kept == [1, 3]


def test_a_normal_add_after_a_fence_is_reported_also_on_another_connection() -> None:
    wire = Wire()
    wire.add(0)
    wire.read(-1, Status.EOK, is_fencing=True)
    wire.stream = wire.connect()

    wire.add(1, is_recovery=True)
    wire.add(1, status=Status.EFENCED)
    assert wire.rules == []
    wire.add(1)
    assert wire.rules == ["S7"]


def test_a_deleted_ledger_is_forgotten_with_its_fence() -> None:
    wire = Wire()
    wire.read(-1, Status.EOK, is_fencing=True)
    wire.metadata = None

    wire.add(0)

    assert wire.rules == []


def test_an_add_that_arrived_before_the_fence_may_be_answered_after_it() -> None:
    wire = Wire()
    early = wire.ask(AddRequest(0, v3.VERSION, ME, EntryId(0), b"", b"body"))
    wire.read(-1, Status.EOK, is_fencing=True)

    wire.say(AddResponse(early, v3.VERSION, Status.EOK, ME, EntryId(0)))

    assert wire.rules == []


def test_a_bookie_that_denies_what_it_acknowledged_is_reported() -> None:
    for status in (Status.ENOENTRY, Status.ENOLEDGER):
        wire = Wire()
        wire.add(0)

        wire.read(0, status)

        assert wire.rules == ["S8"]


@pytest.mark.parametrize("status", [Status.EOK, Status.EUNKNOWNLEDGERSTATE, Status.ENOENTRY, Status.ENOLEDGER])
@pytest.mark.parametrize("what", ["lac", "list"])
@pytest.mark.parametrize("has_added", [True, False])
def test_a_bookie_that_denies_a_ledger_of_which_it_acknowledged_an_entry_is_reported(
    status: Status, what: str, *, has_added: bool
) -> None:
    """spec/bp46.md#T12."""
    wire = Wire()
    if has_added:
        wire.add(0)

    if what == "lac":
        wire.say(ReadLacResponse(wire.ask(ReadLacRequest(0, v3.VERSION, ME)), v3.VERSION, status, ME))
    else:
        wire.say(ListEntriesResponse(wire.ask(ListEntriesRequest(0, v3.VERSION, ME)), v3.VERSION, status, ME))

    is_denial = has_added and status in (Status.ENOENTRY, Status.ENOLEDGER)
    assert wire.rules == (["S8"] if is_denial else [])


def test_a_process_that_has_a_successor_may_deny_what_that_took_but_not_to_a_recovery() -> None:
    """docs/INTEGRITY.md, two processes of one id, "reads": it is cut off, and its denial ends nothing."""
    wire = Wire()
    wire.add(0)
    wire.replaced.append("bookie-1")

    wire.read(0, Status.ENOENTRY)
    wire.say(ReadLacResponse(wire.ask(ReadLacRequest(0, v3.VERSION, ME)), v3.VERSION, Status.ENOLEDGER, ME))
    assert wire.rules == []
    wire.read(0, Status.ENOENTRY, is_fencing=True)
    assert wire.rules == ["S8"]


def test_a_deferred_add_may_be_denied_until_a_force_or_the_bookie_itself_says_that_it_is_on_disk() -> None:
    def answered(wire: Wire, *, told: int | None = None) -> None:
        request = AddRequest(0, v3.VERSION, ME, EntryId(0), b"", b"body", is_deferred=True)
        wire.say(AddResponse(wire.ask(request), v3.VERSION, Status.EOK, ME, EntryId(0), told))

    def forced(wire: Wire, txn: int | None = None) -> None:
        txn = wire.ask(ForceRequest(0, v3.VERSION, ME)) if txn is None else txn
        wire.say(ForceResponse(txn, v3.VERSION, Status.EOK, ME))

    memory, told, forced_after, forced_before, other_life = (Wire() for _ in range(5))
    answered(memory, told=-1)
    answered(told, told=0)
    answered(forced_after)
    forced(forced_after)
    early = forced_before.ask(ForceRequest(0, v3.VERSION, ME))
    answered(forced_before)
    forced(forced_before, early)
    answered(other_life)
    other_life.stream = other_life.connect()
    forced(other_life)

    for wire in (memory, told, forced_after, forced_before, other_life):
        wire.read(0, Status.ENOENTRY)
    assert [wire.rules for wire in (memory, forced_before, other_life)] == [[], [], []]
    assert [wire.rules for wire in (told, forced_after)] == [["S8"], ["S8"]]


def test_not_knowing_is_no_denial_and_beyond_the_end_nothing_matters() -> None:
    wire = Wire()
    wire.add(0)
    wire.add(1)
    wire.read(0, Status.EUNKNOWNLEDGERSTATE)
    assert wire.metadata is not None
    wire.metadata = wire.metadata.closed(EntryId(0), 1)

    wire.read(1, Status.ENOENTRY)

    assert wire.rules == []


def test_a_bookie_that_was_replaced_may_forget() -> None:
    wire = Wire()
    wire.add(5)
    assert wire.metadata is not None
    wire.metadata = wire.metadata.with_ensemble(EntryId(5), (BOOKIES[0], BookieId("bookie-9"), BOOKIES[2]))

    wire.read(5, Status.ENOENTRY)

    assert wire.rules == []


def told(wire: Wire, entry: int, lac: int) -> None:
    """A writer sends an entry whose header says `lac`, and every bookie answers."""
    body = HEADER.pack(ME, entry, lac, 0)
    for stream in wire.streams():
        wire.stream = stream
        request = AddRequest(0, v3.VERSION, ME, EntryId(entry), b"", body)
        wire.say(AddResponse(wire.ask(request), v3.VERSION, Status.EOK, ME, EntryId(entry)))


def test_a_header_that_says_more_than_an_ack_quorum_acknowledged_is_reported() -> None:
    wire = Wire()
    told(wire, 0, -1)
    told(wire, 1, 0)
    told(wire, 2, 0)  # late is fine
    assert wire.rules == []

    wire.stream = wire.connect()
    wire.ask(AddRequest(0, v3.VERSION, ME, EntryId(3), b"", HEADER.pack(ME, 3, 2, 0)))
    assert wire.rules == []
    wire.ask(AddRequest(0, v3.VERSION, ME, EntryId(5), b"", HEADER.pack(ME, 5, 4, 0)))
    assert wire.rules == ["LAC"]
    assert (
        "the header of entry 5 of ledger 7 says that 4 is confirmed, and 0 bookies acknowledged entry 3"
        in wire.reports[0]
    )


def test_a_lac_that_is_written_is_looked_at_as_a_header_is() -> None:
    wire = Wire()
    told(wire, 0, -1)

    wire.ask(WriteLacRequest(0, v3.VERSION, ME, 0, b"", b"body"))
    assert wire.rules == []
    wire.ask(WriteLacRequest(0, v3.VERSION, ME, 1, b"", b"body"))
    assert wire.rules == ["LAC"]


def test_what_a_bookie_said_of_a_deleted_ledger_binds_it_in_no_other_one() -> None:
    """Made anew under its id: neither the fence, nor what was acknowledged; nor what it still says to the key of the
    first one."""
    wire = Wire()
    wire.add(0)
    wire.read(-1, Status.EOK, is_fencing=True)
    assert wire.metadata is not None
    wire.metadata = dataclasses.replace(wire.metadata, password=LIFE + b"1")
    wire.tap.metadata_changed(ME, None)
    wire.tap.metadata_changed(ME, wire.metadata)

    early = AddRequest(0, v3.VERSION, ME, EntryId(3), digest.master_key(b""), b"body")
    wire.say(AddResponse(wire.ask(early), v3.VERSION, Status.EOK, ME, EntryId(3)))
    wire.read(3, Status.ENOENTRY)
    wire.read(0, Status.ENOENTRY)
    wire.add(1)
    assert wire.rules == []

    wire.tap.metadata_changed(ME, wire.metadata.in_recovery())
    wire.read(1, Status.ENOENTRY)
    assert wire.rules == ["S8"]


def test_a_lac_in_a_ledger_that_was_made_anew_counts_the_answers_to_its_own_writer() -> None:
    wire = Wire()
    for stream in wire.streams():
        wire.stream = stream
        wire.add(0)
    assert wire.metadata is not None
    wire.metadata = dataclasses.replace(wire.metadata, password=LIFE + b"1")
    wire.tap.metadata_changed(ME, wire.metadata)

    wire.ask(WriteLacRequest(0, v3.VERSION, ME, 0, digest.master_key(b""), b""))
    assert wire.rules == []
    wire.ask(WriteLacRequest(0, v3.VERSION, ME, 0, digest.master_key(LIFE + b"1"), b""))
    assert wire.rules == ["LAC"]
