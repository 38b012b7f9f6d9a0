"""What strangers may make a living bookie hold: bytes, descriptors; and that clients who behave notice nothing.

Memory is the process's resident size, of a process whose C library keeps nothing that was freed. Every attacker here is
one that had a bookie end, or hold a gibibyte for ever.
"""

import contextlib
import dataclasses
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import attack_target
import hostile_support
import local_support
import server_support
import wait_support
from bookie.base.budgets import Budgets
from bookie.base.errors import Status
from bookie.base.ids import EntryId
from bookie.base.units import KIB, MIB
from bookie.runtime import network
from bookie.server import connection
from bookie.server.readers import WIDTH_FIRST
from bookie.wire import v2, v3
from bookie.wire.framing import FRAME_LIMIT_BYTES
from bookie.wire.messages import BatchReadRequest, ReadLacRequest
from local_support import LocalBookie

pytestmark = pytest.mark.slow

DEADLINE_S = 90.0
DESCRIPTORS = 1024
# What is freed goes back to the system at once: else each thread's share of the heap keeps some multiples of the
# largest piece that it ever gave back (malloc(3)), and a bound that is broken is not told from one that is kept.
GIVES_BACK = "export MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=65536;"


@pytest.fixture(scope="module")
def bookie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBookie]:
    """A bookie whose process may have 1,024 descriptors, hard."""
    folder = tmp_path_factory.mktemp("budgets")
    mine = resource.getrlimit(resource.RLIMIT_NOFILE)
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=1) as fleet:
        bookie = fleet.bookies[0]
        local_support.stop(bookie)
        shell = f'{GIVES_BACK} ulimit -Sn 512; ulimit -Hn {DESCRIPTORS}; exec "$@"'
        with local_support.again(bookie, enter=["sh", "-c", shell, "sh"]) as process:
            yield dataclasses.replace(bookie, pid=process.pid)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == mine


class Honest:
    """A client that adds and reads all the time, on connections that it keeps."""

    def __init__(self, bookie: LocalBookie) -> None:
        self._honour = attack_target.Honour(bookie.port)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.slowest_s = 0.0
        self.count = 0
        self.problem = ""

    def __enter__(self) -> "Honest":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(DEADLINE_S)
        self._honour.close()

    def was_served(self) -> None:
        """Every answer came, and none late."""
        assert not self.problem
        assert self.slowest_s < wait_support.patient(10)

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                began = time.monotonic()
                for request in (server_support.add(self.count), server_support.read(self.count)):
                    status = self._honour.ask(request).status
                    assert status is Status.EOK, status
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                self.count += 1
        except (AssertionError, OSError) as error:
            self.problem = repr(error)


def metric(bookie: LocalBookie, name: str) -> float:
    with contextlib.closing(hostile_support.connected(bookie.metrics_port)) as stream:
        stream.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        page = b""
        while chunk := stream.recv(65536):
            page += chunk
    lines = [line for line in page.decode().splitlines() if line.startswith(name)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def peak_bytes(bookie: LocalBookie, seconds: float, until: threading.Event | None = None) -> int:
    """The most that its resident size is in so many seconds."""
    most, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline and not (until and until.is_set()):
        most = max(most, hostile_support.resident_bytes(bookie.pid))
        time.sleep(0.02)
    return most


def test_more_idle_connections_than_descriptors_end_nothing_and_shut_nobody_out(bookie: LocalBookie) -> None:
    """1,224 of them ended a bookie, as "ledger directory takes no writes"; from two addresses they took every place."""
    refused = metric(bookie, 'bookie_door_refusals_total{door="budget"}')
    addresses = [(f"127.0.0.{number}", 0) for number in (3, 4, 5)]
    request = b"".join(v3.pack_request(server_support.read(0)))

    with Honest(bookie) as honest, contextlib.ExitStack() as stack:
        for number in range(1300):
            with contextlib.suppress(ConnectionError):
                address = addresses[number % 3]
                idle = socket.create_connection(("127.0.0.1", bookie.port), DEADLINE_S, source_address=address)
                stack.enter_context(contextlib.closing(idle)).sendall(request[: number % len(request)])
        wait_support.wait_until(
            lambda: metric(bookie, 'bookie_door_refusals_total{door="budget"}') > refused, "a refusal", timeout_s=30
        )
        files = hostile_support.files_of(bookie.pid)
        # Who speaks is let in beside them, also from where they are.
        for address in (("127.0.0.2", 0), *addresses):
            with socket.create_connection(("127.0.0.1", bookie.port), 5, source_address=address) as other:
                other.sendall(request)
                assert other.recv(4)

    assert files < DESCRIPTORS - 200
    assert (honest.problem, honest.count > 0) == ("", True)


@pytest.mark.parametrize("which", ["admin_port", "metrics_port"])
def test_idle_connections_to_the_other_ports_end_nothing_either(bookie: LocalBookie, which: str) -> None:
    """At no time do they use the descriptors up: the loop would close the bookie's new clients unheard."""
    port, most = getattr(bookie, which), 0

    with Honest(bookie) as honest, contextlib.ExitStack() as stack:
        for number in range(1300):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=2))
            if number % 50 == 49:
                most = max(most, hostile_support.files_of(bookie.pid))
        before = honest.count
        for number in range(12):  # a log and index files are opened meanwhile
            hostile_support.add_s(bookie.port, 200_000 + number, bytes(4 * MIB))
        wait_support.wait_until(lambda: honest.count > before + 10, "honest entries", timeout_s=DEADLINE_S)

    assert (honest.problem, most < DESCRIPTORS - 200) == ("", True), most


def test_unfinished_frames_are_bounded_and_go(bookie: LocalBookie) -> None:
    """200 frames of 5 MiB of which the last byte never came held 1 GiB for ever."""
    before = hostile_support.resident_bytes(bookie.pid)
    frame = (FRAME_LIMIT_BYTES - 4).to_bytes(4, "big") + bytes(FRAME_LIMIT_BYTES - 5)
    most = [0]
    done = threading.Event()
    watcher = threading.Thread(target=lambda: most.__setitem__(0, peak_bytes(bookie, DEADLINE_S, done)))
    watcher.start()

    with Honest(bookie) as honest, contextlib.ExitStack() as stack:
        streams = [stack.enter_context(hostile_support.connected(bookie.port)) for _ in range(150)]
        for stream in streams:
            stream.setblocking(False)
        left = {stream: memoryview(frame) for stream in streams}
        deadline = time.monotonic() + 12
        while left and time.monotonic() < deadline:
            for stream, rest in list(left.items()):
                try:
                    left[stream] = rest[stream.send(rest[: 256 * KIB]) :]
                except BlockingIOError:
                    continue
                except ConnectionError:
                    del left[stream]
                    continue
                if not left[stream]:
                    del left[stream]
    done.set()
    watcher.join()

    honest.was_served()
    assert (most[0] - before) / MIB < 400
    wait_support.wait_until(
        lambda: metric(bookie, "bookie_unfinished_frames_bytes") < MIB, "room again", timeout_s=DEADLINE_S
    )


def plain(number: int) -> bytes:
    return b"".join(v3.pack_request(server_support.read(100_000 + number % 60, txn=number)))


def batch(number: int) -> bytes:
    entry_id = EntryId(100_000 + number % 60)
    return b"".join(v2.pack_request(BatchReadRequest(number, 2, server_support.LEDGER, entry_id, 1, 5 * MIB)))


def last_confirmed(number: int) -> bytes:
    return b"".join(v3.pack_request(ReadLacRequest(number, 3, server_support.LEDGER)))


LARGE_BYTES = 4 * MIB
# What an honest client's entries, rows of the index and the loop's own work may take beside them.
BESIDE_BYTES = 8 * MIB


def held_bytes_max(readers: int) -> int:
    """The sum of what is bounded: answers that are not taken, and reads that began before there were so many."""
    bounds = Budgets()
    of_one_bytes = connection._UNSENT_BYTES_MAX + network._WRITE_AHEAD_BYTES_MAX + WIDTH_FIRST * LARGE_BYTES
    unsent_bytes = min(bounds.unsent_bytes, readers * of_one_bytes)
    under_way = min(bounds.reads, readers * WIDTH_FIRST) + 1  # one is cut out of the record that was read
    return unsent_bytes + under_way * LARGE_BYTES + BESIDE_BYTES


@pytest.mark.parametrize("readers", [1, 80])
@pytest.mark.parametrize("ask", [plain, batch, last_confirmed], ids=lambda ask: ask.__name__)
def test_answers_that_nobody_takes_are_bounded(bookie: LocalBookie, readers: int, ask: Callable[[int], bytes]) -> None:
    """One client that asked for 400 large entries and read nothing cost 1.1 GiB; 80 of them still 0.5 GiB, when answers
    counted by what was left of them and no longer once their client was cut off."""
    for number in range(60):  # more than caches hold
        hostile_support.add_s(bookie.port, 100_000 + number, bytes(LARGE_BYTES))
    before = hostile_support.resident_bytes(bookie.pid)
    greedy = b"".join(map(ask, range(1, 401)))

    with Honest(bookie) as honest, hostile_support.many(bookie.port, readers, greedy):
        most = peak_bytes(bookie, 8)

    grown, bound = (most - before) / MIB, held_bytes_max(readers) / MIB
    print(f"{readers} readers of {ask.__name__}: {grown:.0f} of {bound:.0f} MiB, an answer {honest.slowest_s:.2f} s")
    honest.was_served()
    assert grown < bound
    # Nothing is read for who is gone: it went on, and took as much again beside whoever came next.
    wait_support.wait_until(lambda: metric(bookie, "bookie_connections_open") == 0, "their ends", timeout_s=30)
