"""The oracle's log on a real disk: what is flushed is there, a torn line waits, all files are one expectation."""

from pathlib import Path

from bookie.workload import files, payload, records

SEED = 3


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
