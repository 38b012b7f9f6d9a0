"""What the system says of a directory or a port, asked of this machine; a question leaves nothing behind."""

import fcntl
import os
import socket
import types
from pathlib import Path

import pytest

from bookie.ports.network import Address
from bookie.runtime import place


def test_whoever_asked_about_a_lock_does_not_hold_it(tmp_path: Path) -> None:
    """The bookie that asks takes the lock next."""
    (tmp_path / "current").mkdir()
    lock = tmp_path / "current" / "LOCK"
    lock.touch()
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        assert not place.look(str(tmp_path), inside="current", lock="LOCK").is_held

    assert len(os.listdir("/proc/self/fd")) == before
    with lock.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert place.look(str(tmp_path), inside="current", lock="LOCK").is_held


@pytest.mark.parametrize(("flag", "is_read_only"), [(os.ST_RDONLY | os.ST_NOSUID, True), (os.ST_NOSUID, False)])
def test_a_file_system_that_is_mounted_read_only_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int, *, is_read_only: bool
) -> None:
    facts = types.SimpleNamespace(f_flag=flag, f_fsid=1, f_blocks=1, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda path: facts)

    assert place.look(str(tmp_path), inside="current", lock="LOCK").is_read_only is is_read_only


def test_a_port_whose_former_connections_are_still_known_to_the_kernel_is_free() -> None:
    """A bookie that was stopped closed them first; the kernel remembers each for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = listener.accept()
            accepted.close()
            assert client.recv(1) == b""
        assert place.why_not_to_listen(Address("127.0.0.1", port)) != "", "somebody listens"

    assert place.why_not_to_listen(Address("127.0.0.1", port)) == ""
