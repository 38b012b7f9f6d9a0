"""`bookie serve` and bad input: each has one sentence that names the thing, the reason and the next step."""

import subprocess
from pathlib import Path

import pytest

import local_support
import port_support
import zookeeper_support
from bookie.cli import main
from bookie.local import layout

pytestmark = pytest.mark.slow

DEADLINE_S = 90.0


def serve(folder: Path, uri: str, *flags: str) -> subprocess.CompletedProcess[str]:
    bookie = local_support.plan_one(folder)
    layout.write_config(bookie, uri, journal_write_data=True, regeneration="gated")
    argv = [*local_support.BOOKIE, "serve", "--config", str(bookie.config), *flags]
    return subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def test_an_unreachable_metadata_store_is_told_with_its_address(tmp_path: Path) -> None:
    port = port_support.free_port()

    done = serve(
        tmp_path,
        f"zk+hierarchical://127.0.0.1:{port}/ledgers",
        *("--zk-timeout", "1000"),
        *("--metadata-patience-ms", "1"),
    )

    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert f"127.0.0.1:{port}" in last
    assert "check metadataServiceUri" in last


def test_a_metadata_store_without_a_cluster_is_told_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with zookeeper_support.running(tmp_path / "zookeeper") as zookeeper:
        done = serve(tmp_path, zookeeper.uri)

    assert done.returncode == 1
    assert "bookie cluster init" in done.stderr.strip().splitlines()[-1]


def test_a_cluster_is_not_made_beside_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bookie = local_support.plan_one(tmp_path)
    sentinel = Path(bookie.volumes["ledgers"]) / "BOOKIE"
    with zookeeper_support.running(tmp_path / "zookeeper") as zookeeper:
        layout.write_config(bookie, zookeeper.uri, journal_write_data=True, regeneration="gated")
        sentinel.write_text("it is ours")
        config = ["--config", str(bookie.config)]

        assert main.main(["cluster", "init", *config]) == 4
        assert main.main(["cluster", "init", "--if-missing", *config]) == 4
        for command in (["cluster", "show"], ["ledger", "list"], ["cookie", "list"], ["metadata", "acl"]):
            assert main.main([*command, *config]) == 1

        said = capsys.readouterr().err
        assert said.count(f"{bookie.volumes['ledgers']} ({bookie.config}:") == 6
        assert said.count("restore its metadata store from a backup") == 6
        assert "cluster init" not in said
        sentinel.unlink()
        assert main.main(["cluster", "init", *config]) == 0
        sentinel.write_text("it is ours")
        assert main.main(["cluster", "init", "--if-missing", *config]) == 0
