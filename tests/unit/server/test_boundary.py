"""Whatever serving a request raises becomes EIO for its client, and nobody else notices."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

import server_support
from bookie.base import line_limit
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import MIB
from bookie.server import doors, lists
from bookie.server.admission import Admission
from bookie.server.boundary import Boundary
from bookie.server.metrics import ServerMetrics
from bookie.server.processor import Processor
from bookie.server.readers import Readers
from bookie.server.unsent import Unsent
from bookie.storage.store import EntryStore
from bookie.wire.messages import (
    AddMix,
    AddRun,
    BatchReadRequest,
    BookieInfoRequest,
    ForceRequest,
    Incoming,
    ListEntriesRequest,
    Outgoing,
    ReadLacRequest,
    ReadRequest,
    ReadRun,
    WriteLacRequest,
)
from server_support import KEY, LEDGER, Asker

RAISED = [AssertionError, RecursionError, MemoryError, OverflowError, UnicodeError, KeyError]
IDS = (0, 3, LEDGER)
REQUESTS: list[Incoming] = [
    AddRun(3, LEDGER, KEY, False, False, False, [1, 2], [EntryId(0), EntryId(1)], [b"", b""]),
    AddRun(3, LEDGER, KEY, False, True, False, [1], [EntryId(0)], [b""]),
    AddMix(3, [LEDGER, LedgerId(8)], [KEY, KEY], [1, 2], [EntryId(0), EntryId(0)], [b"", b""]),
    ReadRequest(*IDS, EntryId(0)),
    ReadRequest(*IDS, EntryId(0), KEY, is_fencing=True),
    ReadRequest(*IDS, EntryId(0), previous_lac=-1, timeout_ms=100, is_piggyback=True),
    ReadRun(3, LEDGER, [1, 2], [EntryId(0), EntryId(1)]),
    BatchReadRequest(0, 2, LEDGER, EntryId(0), 1, 1),
    BatchReadRequest(0, 2, LEDGER, EntryId(0), 1, 1, KEY, is_fencing=True),
    WriteLacRequest(*IDS, 0, KEY, bytes(36)),
    ReadLacRequest(*IDS),
    ForceRequest(*IDS),
    ListEntriesRequest(*IDS),
    BookieInfoRequest(0, 3, 3),
]


class Broken:
    """A store of which every call raises, but for what is asked before a read goes to the disk."""

    def __init__(self, store: EntryStore, error: type[Exception]) -> None:
        self._error = error
        self.options = store.options
        self.is_read_only = False

    @property
    def health(self) -> Any:
        raise self._error("ours")

    def watch_lac(self, ledger_id: LedgerId, callback: Any) -> Callable[[], None]:
        return lambda: None

    def read_nowait(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        return None

    def read_run_nowait(self, ledger_id: LedgerId, entry_ids: list[EntryId]) -> list[None]:
        return [None for _ in entry_ids]

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            raise self._error("ours")

        return call


class Told:
    """A client that counts statuses; `cannot_pack`: what an answer that is not EIO raises."""

    peer = "test"
    queued_bytes = 0
    untaken_bytes = 0
    takes_answers = True

    def __init__(self, cannot_pack: type[Exception] | None = None, *, even_refusals: bool = False) -> None:
        self.statuses: list[Status] = []
        self.slow_reads = 0
        self.is_broken_off = False
        self._cannot_pack = cannot_pack
        self._even_refusals = even_refusals

    def reply(self, response: Outgoing) -> None:
        if self._cannot_pack is not None and (self._even_refusals or response.status is not Status.EIO):
            raise self._cannot_pack("ours")
        self.statuses.append(response.status)

    def slow_reads_began(self, count: int) -> None:
        self.slow_reads += count

    def slow_reads_ended(self, count: int) -> None:
        self.slow_reads -= count

    def start_tls(self, request: Any) -> None:
        raise AssertionError

    def break_off(self) -> None:
        self.is_broken_off = True


def run(request: Incoming, to: Told, *, broken: type[Exception] | None = None) -> list[Exception]:
    """Handle one request, then an honest add; return what was stopped."""
    met = server_support.MetDoors()

    async def story(asker: Asker, store: EntryStore) -> None:
        assert (await asker.add(0)).status is Status.EOK
        served: Any = store if broken is None else Broken(store, broken)
        boundary = Boundary(met)
        readers = Readers(boundary, Unsent(64 * MIB))
        asker.node.spawn(readers.run(), "readers")
        listers = lists.listers(boundary, Unsent(64 * MIB))
        asker.node.spawn(listers.run(), "listers")
        clock = asker.processor.clock
        processor = Processor(served, readers, listers, Admission(), ServerMetrics(), clock, boundary)

        server_support.hand_in(processor, copy.deepcopy(request), to)
        await asker.node.simulation.until(lambda: bool(to.statuses) or to.is_broken_off, f"an answer to {request}")
        await asker.node.simulation.until(lambda: to.slow_reads == 0, "every slow read that began has ended")

        other = server_support.add(0, ledger_id=LedgerId(8))
        other.body = server_support.body(0, ledger_id=8)
        assert (await asker.ask(other)).status is Status.EOK
        assert readers.count == 0

    server_support.run(story)
    return [error for _, error in met.met]


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_whatever_the_store_raises_is_eio_and_counted_once(request_: Incoming, error: type[Exception]) -> None:
    to = Told()

    met = run(request_, to, broken=error)

    assert to.statuses == [Status.EIO]
    assert [type(seen) for seen in met] == [error]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_an_answer_that_cannot_be_made_is_eio_too(request_: Incoming) -> None:
    """Where completions run (the journal's task, the loop, a reader) nothing is raised."""
    to = Told(OverflowError)

    met = run(request_, to)

    assert set(to.statuses) == {Status.EIO}
    assert {type(seen) for seen in met} == {OverflowError}


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_client_that_cannot_even_be_refused_is_broken_off(request_: Incoming) -> None:
    to = Told(OverflowError, even_refusals=True)

    run(request_, to)

    assert to.is_broken_off
    assert not to.statuses


# ---- the doors


class Clock:
    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0

    async def sleep_until(self, monotonic_ns: int) -> None: ...


def failing_in(module: str, error: type[Exception] = AssertionError) -> Exception:
    """An error raised in `module`."""
    with pytest.raises(error) as met:
        exec("raise error('ours')", {"__name__": module, "error": error})
    return met.value


@pytest.mark.parametrize(
    ("module", "error", "ends"),
    [
        ("bookie.storage.partition", AssertionError, True),
        ("bookie.integrity.boot", AssertionError, True),
        ("bookie.storage.partition", KeyError, False),
        ("bookie.server.reads", AssertionError, False),
        ("bookie.wire.v2", AssertionError, False),
        ("grpc.aio", AssertionError, False),
    ],
)
def test_only_a_broken_assumption_about_what_is_kept_ends_the_node(
    module: str, error: type[Exception], ends: bool
) -> None:
    ended: list[BaseException] = []
    met = failing_in(module, error)

    doors.NodeDoors(Clock(), ended.append).failed("request", met)

    assert ended == ([met] if ends else [])


def test_lines_are_few_and_say_how_many_were_kept_back(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    found = doors.NodeDoors(clock, server_support.not_expected)

    for _ in range(1000):
        found.refused("frame", "nonsense\nERROR forged \x1b[31m" + "x" * 10_000, "10.0.0.9:4711")
    clock.now_ns += line_limit.INTERVAL_NS
    found.tell_rest()

    assert len(caplog.messages) == line_limit.BURST + 1
    assert all("\n" not in line and len(line) < 500 for line in caplog.messages)
    assert caplog.messages[-1] == f"lines kept back door=frame count={1000 - line_limit.BURST}"
    assert {sample.labels: sample.value for sample in found.samples()} == {(("door", "frame"),): 1000}
