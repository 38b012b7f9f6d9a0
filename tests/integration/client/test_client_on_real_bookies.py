"""The client, the commands and the examples against real bookies and a real ZooKeeper (`bookie local`)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import children
import local_support
import polling
from bookie import blocking
from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.client import DigestType, LedgerWriter
from bookie.client.write.seat import Seat
from bookie.connect import connect
from local_support import LocalFleet
from story_support import in_a_loop
from wait_support import POLL_S, wait_until

ROOT = Path(__file__).resolve().parents[3]
ENTRIES = 500


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """Four bookies for the whole module; the last test kills one of them."""
    folder = tmp_path_factory.mktemp("fleet")
    with local_support.fleet(folder / "data", folder / "log", bookies=4) as running:
        yield running


def bookie(*words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "bookie", *words], input=stdin, capture_output=True, timeout=120, check=False, cwd=ROOT
    )


@pytest.mark.parametrize("digest", list(DigestType))
@in_a_loop
async def test_every_digest_round_trips_through_real_bookies(*, fleet: LocalFleet, digest: DigestType) -> None:
    async with connect(fleet.uri) as client:
        payloads = [b"%d" % number * (number % 300) for number in range(500)]
        async with await client.create(digest_type=digest, password=b"secret") as writer:
            await writer.append_many(payloads)

        async with await client.open(writer.id, b"secret") as reader:
            assert [entry.payload for entry in await reader.read(0, 499)] == payloads
            assert reader.metadata.length == sum(map(len, payloads))


@in_a_loop
async def test_a_recoverer_fences_a_live_writer_and_keeps_all_it_acknowledged(*, fleet: LocalFleet) -> None:
    async with connect(fleet.uri) as writing, connect(fleet.uri) as client:
        writer = await writing.create()
        acknowledged = -1
        under_way = asyncio.Event()

        async def write() -> None:
            nonlocal acknowledged
            while True:
                acknowledged = await writer.append(b"x")
                if acknowledged == 50:
                    under_way.set()

        task = asyncio.ensure_future(write())
        async with asyncio.timeout(60):
            await under_way.wait()
        reader = await client.open(writer.id)
        await asyncio.wait([task], timeout=60)

        assert isinstance(task.exception(), errors.LedgerFenced | errors.LedgerClosed)
        assert 50 <= acknowledged <= reader.last_entry


@in_a_loop
async def test_our_bookies_say_in_their_answers_what_is_on_disk_meanwhile_so_that_the_lac_moves_without_a_force(
    *, fleet: LocalFleet
) -> None:
    """BP-14, CONFORMANCE.md#D16: LastAddSynced in the answers to deferred adds."""
    async with connect(fleet.uri) as client:
        async with await client.create(deferred_sync=True) as writer:
            await writer.append_many([b"x" * 1_000] * 300)
            assert await writer.force() == 299
            last = 299
            async with asyncio.timeout(60):
                while writer.last_confirmed == 299:
                    last = await writer.append(b"x" * 1_000)

        async with await client.open(writer.id) as reader:
            assert len(await reader.read(0, last)) == last + 1


def test_the_blocking_client_says_the_same(fleet: LocalFleet) -> None:
    with blocking.connect(fleet.uri) as client:
        with client.create() as writer:
            assert writer.append(b"first") == 0
            assert writer.append_many([b"more"] * 600) == range(1, 601)

        with client.open(writer.id) as reader:
            assert len(reader.read(0, 600)) == 601
            assert sum(1 for _ in reader.read_stream(0, 600)) == 601
        assert writer.id in list(client.ledgers())
        client.delete(writer.id)
        with pytest.raises(errors.LedgerMissing):
            client.metadata(writer.id)


def test_the_commands_write_read_show_list_recover_and_delete(fleet: LocalFleet) -> None:
    uri = ("--metadata-service-uri", fleet.uri)
    lines = b"".join(b"line %d\n" % number for number in range(1_200))

    written = json.loads(bookie("ledger", "write", *uri, "--json", stdin=lines).stdout)
    ledger = str(written["ledger"])
    left_open = bookie("ledger", "create", *uri).stdout.decode().strip()

    assert written["lastEntry"] == 1_199
    assert bookie("ledger", "read", ledger, *uri).stdout == lines
    assert json.loads(bookie("ledger", "show", ledger, *uri, "--json").stdout)["state"] == "CLOSED"
    assert int(ledger) in json.loads(bookie("ledger", "list", *uri, "--json").stdout)
    assert json.loads(bookie("ledger", "recover", left_open, *uri, "--json").stdout)["lastEntry"] == -1
    assert bookie("ledger", "delete", ledger, *uri).returncode == 4
    assert bookie("ledger", "delete", ledger, *uri, "--yes").returncode == 0
    gone = bookie("ledger", "show", ledger, *uri)
    assert (gone.returncode, b"does not exist" in gone.stderr) == (3, True)
    bookies = json.loads(bookie("cluster", "list-bookies", *uri, "--json").stdout)
    assert [facts["state"] for facts in bookies] == ["writable"] * 4


def test_lines_are_written_as_they_come_and_ctrl_c_ends_the_wait_for_more(fleet: LocalFleet, tmp_path: Path) -> None:
    said = tmp_path / "stderr"
    argv = [sys.executable, "-m", "bookie", "ledger", "write", "--metadata-service-uri", fleet.uri]
    with said.open("wb") as stderr:
        process = children.spawn(argv, stderr=stderr, stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        stdin = process.stdin
        wait_until(lambda: "ledger " in children.tail(said), "the ledger's id", timeout_s=60)
        ledger_id = LedgerId(int(children.tail(said).split()[1]))
        with blocking.connect(fleet.uri) as client, client.open_no_recovery(ledger_id) as reader:

            def confirmed() -> bool:
                stdin.write("line\n")  # an entry is seen as confirmed with the next one
                stdin.flush()
                return reader.read_last_confirmed() >= 1

            wait_until(confirmed, "the first lines, while stdin is open", timeout_s=60)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130
        told = children.tail(said)
        assert f"ledger {ledger_id} is left open" in told
        assert f"`bookie ledger recover {ledger_id}`" in told
    finally:
        if process.stdin is not None:
            process.stdin.close()  # else its loss is told in another test
        children.end(process, timeout_s=10)


@pytest.mark.parametrize(
    ("name", "flags", "told"),
    [
        ("written, not read", os.O_WRONLY | os.O_CREAT, b"stdin is open only for writing"),
        ("/proc/self/mem", os.O_RDONLY, b"stdin cannot be read: Input/output error"),
    ],
    ids=["only-for-writing", "fails-when-read"],
)
def test_a_write_from_a_stdin_that_cannot_be_read_says_so(
    fleet: LocalFleet, tmp_path: Path, name: str, flags: int, told: bytes
) -> None:
    argv = [sys.executable, "-m", "bookie", "ledger", "write", "--metadata-service-uri", fleet.uri]
    stdin = os.open(tmp_path / name, flags)
    try:
        done = subprocess.run(argv, stdin=stdin, capture_output=True, timeout=120, check=False, cwd=ROOT)
    finally:
        os.close(stdin)
    assert done.returncode == 2, done
    assert told in done.stderr


@pytest.mark.parametrize("example", ["quickstart", "tail", "fence"])
def test_the_examples_run(fleet: LocalFleet, example: str) -> None:
    done = subprocess.run(
        [sys.executable, f"examples/{example}.py", fleet.uri], cwd=ROOT, capture_output=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("example", ["quickstart", "tail", "fence", "pipeline"])
def test_an_example_that_is_started_without_a_cluster_shows_how_it_is_started(example: str) -> None:
    done = subprocess.run(
        [sys.executable, f"examples/{example}.py"], cwd=ROOT, capture_output=True, timeout=120, check=False, text=True
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert f"python examples/{example}.py zk+hierarchical://" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_application_without_a_log_is_told_the_error_and_no_attempt_to_connect() -> None:
    """kazoo's warnings name no address, and Python prints them where nobody set up logging."""
    script = """
import asyncio
from bookie.connect import connect
async def story():
    async with connect("zk+hierarchical://127.0.0.1:1/ledgers", session_timeout_ms=1_000):
        pass
asyncio.run(story())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, timeout=120, check=False, text=True
    )

    assert "MetadataError: the metadata store at 127.0.0.1:1 did not answer within 1 s" in done.stderr
    assert "Connection dropped" not in done.stderr


def test_a_metadata_store_that_is_not_there_is_named() -> None:
    async def story() -> None:
        async with connect("zk+hierarchical://127.0.0.1:1/ledgers", session_timeout_ms=2_000):
            raise AssertionError("there is no ZooKeeper at port 1")

    with pytest.raises(errors.MetadataError, match=r"127\.0\.0\.1:1"):
        asyncio.run(story())


@in_a_loop
async def test_writers_live_through_the_death_of_a_bookie_and_nothing_acknowledged_is_lost(
    *, fleet: LocalFleet
) -> None:
    """Kills a bookie of the fleet: the last test of this module that uses it."""
    async with connect(fleet.uri, request_timeout_ms=4_000) as client:
        writers = [await client.create() for _ in range(4)]
        await asyncio.gather(*(writer.append_many([b"before"] * ENTRIES) for writer in writers))

        os.kill(fleet.bookies[0].pid, signal.SIGKILL)
        await asyncio.gather(*(writer.append_many([b"after"] * ENTRIES) for writer in writers))
        # Two others acknowledge all of it before the client hears of the death; and a close ends a change under way.
        assert not await replaced(fleet.bookies[0].bookie_id, writers)
        for writer in writers[:2]:
            await writer.close()  # the others are left to recovery

        async with connect(fleet.uri) as other:
            for writer in writers:
                reader = await other.open(writer.id)
                assert reader.last_entry == 2 * ENTRIES - 1
                assert len(await reader.read(0, reader.last_entry)) == 2 * ENTRIES


def test_a_writer_with_deferred_sync_outlives_the_restart_of_a_bookie_that_was_killed(tmp_path: Path) -> None:
    """On three bookies of its own: it cannot do without any of them."""

    async def story(fleet: LocalFleet) -> None:
        victim = fleet.bookies[1]
        serve = [sys.executable, "-m", "bookie", "serve", "--config", str(victim.facts["config"])]
        async with connect(fleet.uri, ensemble_timeout_ms=120_000) as client:
            writer = await client.create(deferred_sync=True)
            await writer.append_many([b"before"] * ENTRIES)
            before = seat_of(writer, victim.bookie_id)
            local_support.kill(victim)
            with (tmp_path / "bookie.log").open("wb") as talk:
                process = children.spawn(serve, stderr=talk)
            try:
                after = 0
                async with asyncio.timeout(120):
                    while (seat := seat_of(writer, victim.bookie_id)) is before or not (
                        seat.takes_adds and seat.is_back
                    ):
                        after += len(await writer.append_many([b"after"] * 10))
                last = (await writer.append_many([b"all three"] * ENTRIES))[-1]
                assert await writer.force() == last
                await writer.close()
                async with await client.open(writer.id) as reader:
                    payloads = [entry.payload for entry in await reader.read(0, reader.last_entry)]
                assert payloads == [b"before"] * ENTRIES + [b"after"] * after + [b"all three"] * ENTRIES
                assert (await client.metadata(writer.id)).segments == writer.metadata.segments
            finally:
                children.end(process, timeout_s=30)

    with local_support.fleet(tmp_path / "data", tmp_path / "log", bookies=3) as fleet:
        asyncio.run(story(fleet))


async def replaced(victim: str, writers: list[LedgerWriter]) -> dict[int, tuple[str, ...]]:
    """Wait until no writer names `victim` for its next entries; return the ensembles that do after all the patience."""

    def seen() -> dict[int, tuple[str, ...]]:
        ensembles = {writer.id: writer.metadata.last_segment.bookies for writer in writers}
        return {ledger_id: bookies for ledger_id, bookies in ensembles.items() if victim in bookies}

    await asyncio.to_thread(polling.first, lambda: not seen() or None, timeout_s=60, poll_s=POLL_S)
    return seen()


def seat_of(writer: LedgerWriter, bookie_id: str) -> Seat:
    return next(seat for seat in writer._appender.seats if seat.bookie_id == bookie_id)
