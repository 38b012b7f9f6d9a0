"""Two of three real bookies lose their volumes: what only they had of a closed ledger is declared lost by command."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import bookie as package
import children
import local_support
import loss_keys_support
import wait_support
from bookie import blocking
from bookie.cli import main
from bookie.metadata import lost_entries
from local_support import LocalBookie, LocalFleet
from loss_keys_support import ANN

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalFleet]:
    with local_support.fleet(tmp_path / "data", tmp_path / "log", bookies=3) as running:
        monkeypatch.setenv("BOOKIE_METADATA_SERVICE_URI", running.uri)
        yield running


@contextlib.contextmanager
def emptied(bookies: list[LocalBookie], log: Path) -> Iterator[None]:
    """These bookies after the loss of all that they had: marked by hand, and started again."""
    for bookie in bookies:
        local_support.stop(bookie)
        for directory in (bookie.journal, bookie.ledgers, bookie.index):
            shutil.rmtree(directory)
            directory.mkdir()
    with contextlib.ExitStack() as running, log.open("ab") as talk:
        for bookie in bookies:
            config = str(bookie.facts["config"])
            assert main.main(["cookie", "fix", "--config", config, "--yes"]) == 0
            process = children.spawn([*local_support.BOOKIE, "serve", "--config", config], stderr=talk)
            running.callback(children.end, process, timeout_s=local_support.STOP_TIMEOUT_S)
        yield


def test_what_nobody_has_is_declared_lost_and_the_ledger_is_whole_without_it(
    fleet: LocalFleet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with blocking.connect(fleet.uri) as client:
        with client.create(ensemble_size=3, write_quorum=2, ack_quorum=2) as writer:
            writer.append_many([b"entry %d" % number for number in range(30)])
        ensemble = client.metadata(writer.id).last_segment.bookies
    bookies = [bookie for bookie in fleet.bookies if bookie.bookie_id in ensemble[:2]]
    ledger = str(writer.id)
    named = [word for bookie in bookies for word in ("--bookie", bookie.bookie_id)]
    order = ["ledger", "accept-loss", ledger, *named, "--reason", "two disks burnt", "--by", "ann"]
    order += ["--sign-with", str(loss_keys_support.write_private(tmp_path / "key", ANN))]
    trusted = str(loss_keys_support.write_public(tmp_path / "ann.pub", ANN))

    with emptied(bookies, fleet.log):

        def blocked() -> list[int]:
            capsys.readouterr()
            found = list[int]()
            for bookie in bookies:
                main.main(["integrity", "status", "--admin", bookie.admin, "--json"])
                said = capsys.readouterr().out
                found += [one["ledgerId"] for one in json.loads(said)["blocked"]] if said else []
            return found

        wait_support.wait_until(
            lambda: blocked().count(writer.id) == 2, "both bookies to look for what nobody has", timeout_s=120
        )
        assert main.main(["ledger", "check", ledger]) not in (0, 1, 2), "some copies cannot be seen"
        capsys.readouterr()
        assert main.main([*order, "--dry-run"]) == 0
        assert f"declare 10 entries of ledger {ledger} lost" in capsys.readouterr().err
        assert main.main([*order, "--bookie", "mistyped:1", "--dry-run"]) == 0
        assert "careful: this cluster knows no bookie mistyped:1" in capsys.readouterr().err
        assert main.main([*order, "--yes"]) == 0
        assert "10 entries declared lost by ann (two disks burnt): 0, 3, 6" in capsys.readouterr().out

        def is_whole() -> bool:
            return main.main(["ledger", "check", ledger, "--read"]) == 0

        wait_support.wait_until(is_whole, "every copy that is owed to be there", timeout_s=120)
        assert "left out: entries declared lost, 0, 3, 6" in capsys.readouterr().err
        assert main.main(["ledger", "read", ledger, "--first", "1", "--last", "2"]) == 0
        assert main.main(["ledger", "read", ledger, "--first", "3", "--last", "3"]) == 3
        said = capsys.readouterr()
        assert "declared lost by ann: two disks burnt" in said.err
        assert main.main(["ledger", "show", ledger, "--json"]) == 0
        (act,) = lost_entries.load(json.loads(capsys.readouterr().out)["custom"][lost_entries.KEY].encode())
        assert (act.by, act.reason, act.count) == ("ann", "two disks burnt", 10)
        assert main.main(["ledger", "losses", "--trusted", trusted]) == 0
        assert "trusted: signed by ann" in capsys.readouterr().out
        assert act.tool == f"bookie {package.__version__}"
        assert (act.bookies, act.claims, act.gone) == (tuple(sorted(each.bookie_id for each in bookies)), (), ())
