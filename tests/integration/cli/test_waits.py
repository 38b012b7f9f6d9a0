"""What a command waits for is told after some seconds: nobody sits before a silent screen."""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.cli import main, output, where
from bookie.rpc import calls, client

CLI = Path(main.__file__).parent


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the address of somebody who takes connections and never says a word, to commands of little patience."""
    monkeypatch.setattr(where, "SESSION_MS", 1500)  # far longer than a busy machine lets a thread wait for its turn
    monkeypatch.setattr(client, "DEADLINE_S", 1.5)
    monkeypatch.setattr(output, "PATIENCE_S", 0.05)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("verb", ["cluster show", "cookie list", "ledger list", "metadata acl", "autorecovery status"])
def test_who_waits_for_the_metadata_store_is_told_so(
    silent: str, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    uri = f"zk://{silent}/ledgers"

    assert main.main([*verb.split(), "--metadata-service-uri", uri]) == 1

    first, last = capsys.readouterr().err.splitlines()
    assert first == f"waiting for the metadata store at {uri}, 1.5 s at most"
    assert last.startswith(f"bookie: the metadata store at {silent} did not answer within 1.5 s: is ZooKeeper")


@pytest.mark.parametrize("verb", ["node show", "node drain", "node fill-holes --watch", "integrity status --watch"])
def test_who_waits_for_a_bookie_is_told_so(silent: str, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert main.main([*verb.split(), "--admin", silent]) == 1

    first, last = capsys.readouterr().err.splitlines()
    assert first == f"waiting for the bookie at {silent}, 1.5 s at most"
    assert last.startswith(f"bookie: the admin port at {silent} ")
    assert "did not answer (DEADLINE_EXCEEDED: " in last or "has said nothing for 1.5 s" in last


def test_who_waits_for_the_first_step_of_many_is_told_so() -> None:
    waits = []

    def waiting(at_most: str) -> contextlib.AbstractContextManager[None]:
        waits.append(at_most)
        return contextlib.nullcontext()

    with client.AdminClient("127.0.0.1:1", waiting=waiting) as bookie, pytest.raises(errors.BookieUnavailable):
        list(bookie.follow(calls.repair_status()))

    assert waits == [", 20 s at most"]


def test_an_answer_in_time_is_waited_for_in_silence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PATIENCE_S", 60.0)

    before = set(threading.enumerate())
    with output.told_if_slow("nobody"):
        (telling,) = {one for one in threading.enumerate() if isinstance(one, threading.Timer)} - before
    telling.join(timeout=10)

    assert not telling.is_alive(), "it still means to tell"
    assert capsys.readouterr().err == ""


def test_commands_connect_where_waiting_is_told() -> None:
    """`serve` waits as well, and has a log of its own."""
    connects = {path.name for path in CLI.glob("*.py") if re.search(r"\bconnect\(|\bAdminClient\(", path.read_text())}

    assert connects == {"admin_access.py", "where.py", "serve.py"}
