"""SIGTERM at any moment: `bookie serve` ends with 0 within 10 s, whoever it waits for."""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import children
import local_support
import wait_support
from bookie.local import layout

ENDS_WITHIN_S = 10.0


class Silent:
    """Where connections are taken and nothing is ever said: a metadata store that hangs."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._taken: list[socket.socket] = []
        self.uri = f"zk+hierarchical://127.0.0.1:{listener.getsockname()[1]}/ledgers"

    def is_called(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            self._taken.append(self._listener.accept()[0])
        return bool(self._taken)

    def close(self) -> None:
        for connection in self._taken:
            connection.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        store = Silent(listener)
        yield store
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["when its settings are read", "when it has called"])
def test_nobody_waits_for_a_metadata_store_that_hangs(moment: str, tmp_path: Path, silent: Silent) -> None:
    """It took a session time-out: the thread that waited for the server's first word was waited for."""
    bookie = local_support.plan_one(tmp_path)
    layout.write_config(bookie, silent.uri, journal_write_data=True, regeneration="gated")
    bookie.log.parent.mkdir()
    with bookie.log.open("ab") as talk:
        argv = [*local_support.BOOKIE, "serve", "--config", str(bookie.config), "--zk-timeout", "30000"]
        process = children.spawn(argv, stderr=talk, stdout=subprocess.DEVNULL)
    try:
        if moment == "when it has called":
            wait_support.wait_until(silent.is_called, moment, timeout_s=60)
        else:
            wait_support.wait_until(lambda: "setting bookieId=" in bookie.log.read_text(), moment, timeout_s=60)
        began_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
    finally:
        children.end(process, timeout_s=1)

    said, took_s = bookie.log.read_text(), time.monotonic() - began_s
    assert (code, took_s < wait_support.patient(ENDS_WITHIN_S)) == (0, True), (took_s, said)
    assert "Traceback" not in said
