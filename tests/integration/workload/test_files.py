"""The oracle's log on a real disk: what is flushed is there, a torn line waits, all files are one expectation."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie.workload import files, payload, records

SEED = 3
ENTRIES = 20_000


def ack(ledger_id: int, entry_id: int) -> records.Ack:
    body = payload.payload(SEED, ledger_id, entry_id)
    return records.Ack(ledger_id, entry_id, len(body), payload.digest(body))


def test_nothing_is_on_disk_before_the_flush_and_everything_after_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("xb") as file:
        log = files.FileLog(file)
        log.append(records.Create(7, "closing", SEED))
        log.append(ack(7, 0))
        before = path.read_bytes()
        log.flush()

    assert before == b""
    first, *rest = records.load_records(path.read_bytes().splitlines(keepends=True))
    assert isinstance(first, records.Time)
    assert rest == [records.Create(7, "closing", SEED), ack(7, 0)]


def test_a_follower_waits_for_the_rest_of_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = records.dump_record(ack(7, 0))
    follower = files.LogFollower(tmp_path)

    path.write_bytes(line + line[:10])
    assert list(follower.news()) == [ack(7, 0)]
    assert list(follower.news()) == []
    path.write_bytes(line + line)

    assert list(follower.news()) == [ack(7, 0)]


def test_the_log_of_a_run_is_all_its_files_and_torn_ends_do_not_count(tmp_path: Path) -> None:
    for name, ledger_id, tail in (("a", 7, b""), ("b", 8, b'["ack",8,1')):
        created, acked = records.Create(ledger_id, "doomed", SEED), ack(ledger_id, 0)
        text = b"".join(map(records.dump_record, (records.Time(5), created, acked)))
        (tmp_path / f"{name}.jsonl").write_bytes(text + tail)

    expected = files.load_log(tmp_path)

    assert sorted(expected) == [7, 8]
    assert [one.last_acknowledged for one in expected.values()] == [0, 0]


def test_a_folder_without_a_log_expects_nothing(tmp_path: Path) -> None:
    assert files.load_log(tmp_path) == {}


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_no_record_is_lost_that_is_appended_while_others_are_written(tmp_path: Path) -> None:
    # A record that came between the look at the buffer and the append went into a buffer that was written already:
    # an acknowledged entry that nobody verified, or a ledger's creation, and then nothing could be verified.
    path = tmp_path / "writer.jsonl"
    with path.open("wb") as file:
        log = files.FileLog(file)
        is_over = threading.Event()

        def keep_flushing() -> None:
            while not is_over.is_set():
                log.flush()

        other = threading.Thread(target=keep_flushing)
        other.start()
        for ledger_id in range(ENTRIES):
            log.append(records.Create(ledger_id, "closing", 1))
        is_over.set()
        other.join()
        log.flush()

    assert len(files.load_log(tmp_path)) == ENTRIES
