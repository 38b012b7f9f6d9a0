"""Files that somebody named: whatever they are, the reader ends, soon and with a reason."""

import os
from pathlib import Path

import pytest

from bookie.runtime import given_file


@pytest.mark.parametrize("data", [b"", b"text\r\n\xff", bytes(given_file.BYTES_MAX)])
def test_a_file_is_read_whole(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)

    assert given_file.read(tmp_path / "file") == data


def test_what_a_command_writes_into_a_pipe_is_read_to_its_end() -> None:
    """As the shell's `<(command)` does: a pipe that has a name."""
    reading, writing = os.pipe()
    os.write(writing, b"bookiePort=3181")
    os.close(writing)

    assert given_file.read(f"/dev/fd/{reading}") == b"bookiePort=3181"

    os.close(reading)


@pytest.mark.parametrize("written", [None, b"", b"a part"])
def test_a_pipe_that_is_never_written_to_its_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bytes | None
) -> None:
    monkeypatch.setattr(given_file, "PATIENCE_S", 0.01)
    os.mkfifo(tmp_path / "pipe")
    holds = None if written is None else os.open(tmp_path / "pipe", os.O_RDWR)
    if holds is not None:
        os.write(holds, written or b"")

    with pytest.raises(OSError, match=r"nobody wrote it to its end within 0\.01 s"):
        given_file.read(tmp_path / "pipe")

    if holds is not None:
        os.close(holds)


def test_a_piece_that_another_reader_took_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes share a non-blocking pipe, and both are told that there is something."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"piece")
    real, answers = os.read, [BlockingIOError()]

    def read(descriptor: int, size: int) -> bytes:
        if answers:
            raise answers.pop()
        return real(descriptor, size)

    monkeypatch.setattr(os, "read", read)

    assert given_file.read_piece(reading, 100) == b"piece"

    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("endless", [True, False])
def test_what_is_far_too_long_does_not_fill_the_memory(tmp_path: Path, endless: bool) -> None:
    with (tmp_path / "disk").open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(OSError, match="more than 16 MiB, so it is another kind of file"):
        given_file.read("/dev/zero" if endless else tmp_path / "disk")


def test_python_s_own_reasons_stay(tmp_path: Path) -> None:
    for place, reason in ((tmp_path, "Is a directory"), (tmp_path / "nowhere", "No such file or directory")):
        with pytest.raises(OSError, match=reason):
            given_file.read(place)
