"""`bookie inspect`: what a directory cannot tell is not told, and what is missing is named with where it may be."""

import argparse
import json
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.cli import inspect, main
from bookie.integrity import sentinel
from bookie.ports.admin import Sentinel
from bookie.sim.node import ProcessEnd
from bookie.storage.store import EntryStore
from storage_support import Bench, run


def directory_of(folder: Path, role: str, *files: str) -> str:
    """A directory of a bookie in this role, with these files below `current`."""
    (folder / role / "current").mkdir(parents=True)
    mark = Sentinel("i-1", BookieId("b-1"), role, f"{role}-0", Incarnation(1), BootEpoch(1), "fs", "")
    (folder / role / sentinel.NAME).write_bytes(sentinel.dump(mark))
    for name in files:
        (folder / role / "current" / name).write_text("")
    return str(folder / role)


@pytest.mark.parametrize(
    ("role", "files", "ended_well"),
    [
        ("ledgers", ["DIRTY"], False),
        ("ledgers", [], True),
        ("journal", ["00000000.log"], True),  # one directory for everything
        ("journal", ["DIRTY"], False),
        ("journal", [], None),
        ("index", [], None),
    ],
)
def test_only_a_ledger_directory_tells_whether_the_last_stop_was_clean(
    role: str, files: list[str], ended_well: bool | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = directory_of(tmp_path, role, "LOCK", *files)

    assert main.main(["inspect", "directory", directory, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["endedWell"] is ended_well
    assert main.main(["inspect", "directory", directory]) == 0
    line = next(each for each in capsys.readouterr().out.splitlines() if each.startswith("endedWell"))
    said = {True: "yes", False: "no", None: "told by the bookie's ledger directories"}[ended_well]
    assert line.split(None, 1)[1] == said


@pytest.mark.parametrize("words", [["entry-logs"], ["entry", "2", "0"]])
def test_a_ledger_directory_without_an_index_is_told_with_the_flag_to_add(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = directory_of(tmp_path, "ledgers")

    assert main.main(["inspect", words[0], directory, *words[1:]]) == 3

    assert "there is no index: add --index DIR" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["index"], ["ledgers"], ["entry-logs", "--index", "DIR"]])
def test_a_directory_without_an_index_is_told_with_what_to_name(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = directory_of(tmp_path, "ledgers")

    assert (
        main.main(["inspect", words[0], directory, *(directory if word == "DIR" else word for word in words[1:])]) == 3
    )

    assert "there is no index: name one of indexDirectories, or of ledgerDirectories where" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "wanted"),
    [
        (inspect._index, argparse.Namespace(directory="/index", ledger=9)),
        (inspect._ledgers, argparse.Namespace(directory="/index", ledger=9, count=False)),
        (inspect._entry, argparse.Namespace(directory="/ledgers", index="/index", ledger=9, entry=0)),
    ],
)
def test_who_finds_nothing_in_an_index_is_told_of_the_journal(verb: inspect.Verb, wanted: argparse.Namespace) -> None:
    """What was not flushed is no loss."""

    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            await bench.put_all(store, 7, range(1))

        await bench.life(work, end=ProcessEnd.KILL)
        with pytest.raises(errors.BookieError, match=r"knows no .*ledger 9: what was not flushed is in the journal"):
            await bench.node.do(verb(bench.node.begin(), wanted))

    run(story)


def test_the_bytes_of_an_entry_begin_with_its_ledger_id_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            await bench.put_all(store, 7, range(1))
            await store.flush()

        await bench.life(work, end=ProcessEnd.KILL)
        wanted = argparse.Namespace(directory="/ledgers", index="/index", ledger=7, entry=0, json=False)
        assert await bench.node.do(inspect._entry(bench.node.begin(), wanted)) == 0

    run(story)

    assert capsys.readouterr().out.startswith("00000000 00000007 00000000 00000000 ")


@pytest.mark.parametrize("directory", ["/index", "/ledgers"])
def test_of_a_directory_without_an_entry_log_it_is_told_what_it_may_be(
    directory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty table says neither that nothing was flushed nor that this is the directory of an index."""

    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            await bench.put_all(store, 7, range(1))

        await bench.life(work, end=ProcessEnd.KILL)
        wanted = argparse.Namespace(directory=directory, index="/index", json=True)
        assert await bench.node.do(inspect._entry_logs(bench.node.begin(), wanted)) == 0

    run(story)

    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert f"{directory} has no entry log: either nothing was flushed there yet" in err
