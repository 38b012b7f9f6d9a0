"""What a tired person types: each is told in one sentence with its exit code, without a traceback, and nothing is
half-done."""

import argparse
import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from bookie.base import errors
from bookie.cli import main, output
from bookie.cli import test as speed
from bookie.local import layout
from bookie.workload import supervisor

FILE, FOLDER, NOWHERE = "a file", "a folder", "nothing"


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "file").write_text("text")
    return {FILE: str(tmp_path / "file"), FOLDER: str(tmp_path), NOWHERE: str(tmp_path / "nowhere")}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        *(
            (["inspect", verb, FOLDER, "--ledger", number, *more], 2, f"ledger id '{number}' is not a number")
            for verb, more in (("journal", []), ("entry-log", ["0"]), ("index", []), ("ledgers", []))
            for number in ("abc", "-1")
        ),
        *(
            (["node", "show", "--admin", f"127.0.0.1:{port}"], 2, f"names port {port}: it must be 1 to 65535")
            for port in (0, 65_536, 99_999)
        ),
        (["inspect", "directory", FILE], 1, "Not a directory"),
        (["workload", "stop", "--log", NOWHERE], 3, "there is no folder "),
        (["workload", "stop", "--log", FILE], 3, "name the one that `run --log` had"),
        (["workload", "run", "--metadata-service-uri", "zk://h/l", "--log", FILE], 2, "can be no folder: File exists"),
        (
            ["workload", "run", "--metadata-service-uri", "zk://h/l", "--log", "/dev/null/x"],
            2,
            "can be no folder: Not a",
        ),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_sentence(
    places: dict[str, str], capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main.main([places.get(word, word) for word in words]) == code

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bookie")
    assert said in err
    assert err.count("\n") == 1


def test_a_workload_on_a_log_that_was_stopped_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would end at once with 0, having written nothing."""
    (tmp_path / "stop").touch()

    assert main.main(["workload", "run", "--metadata-service-uri", "zk://h/l", "--log", str(tmp_path)]) == 2

    assert "was told to stop" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [
        (FOLDER, errors.BadInput, "cannot be written: Is a directory: name another file"),
        (FILE + "/x", errors.BadInput, "cannot be written: Not a directory: name another file"),
        (NOWHERE + "/x", errors.BadInput, "cannot be written: No such file or directory: name another file"),
        (
            "/dev/full",
            errors.StorageFailed,
            "cannot be written: No space left on device: what it holds now is not whole",
        ),
    ],
)
def test_a_file_that_cannot_be_written_is_told(
    places: dict[str, str], place: str, error: type[errors.BookieError], said: str
) -> None:
    path = Path(places.get(place, place.replace(FILE, places[FILE]).replace(NOWHERE, places[NOWHERE])))

    with pytest.raises(error, match=said):
        output.write(path, b"bytes")


@pytest.mark.parametrize("place", [FILE, "/dev/null/x"])
def test_a_fleet_wants_a_folder(places: dict[str, str], place: str) -> None:
    path = Path(places.get(place, place))

    with (
        pytest.raises(errors.BadInput, match=f"{path} can be no folder of a fleet: .*choose another --data"),
        layout.held(path),
    ):
        pass


class FullCluster:
    """A writer whose bookies are gone."""

    async def append(self, payload: bytes) -> int:
        raise errors.NotEnoughBookies("no bookie takes the place of b0: start bookies")


def test_a_measurement_that_fails_is_told_as_any_other_command() -> None:
    arguments = argparse.Namespace(entries=100, in_flight=10)
    writer: Any = FullCluster()

    with pytest.raises(errors.NotEnoughBookies, match="start bookies"):
        asyncio.run(speed._write(writer, b"payload", arguments))


def test_a_run_is_not_stopped_because_one_before_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stopped").touch()
    monkeypatch.setattr(supervisor, "SAMPLE_S", 0.001)
    run = supervisor.WorkloadRun(("--no-such-option",), tmp_path, 1, 1)  # its writers end at once
    before = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        assert supervisor.supervise(run, kill_every_s=1, stay=False) is False
    finally:
        for number, handler in before:
            signal.signal(number, handler)

    assert not (tmp_path / "stopped").exists()
