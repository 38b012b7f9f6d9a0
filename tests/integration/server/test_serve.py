"""`bookie serve` and bad input: each has one sentence that names the thing, the reason and the next step."""

import subprocess
from pathlib import Path

import pytest

import local_support
import zookeeper_support
from bookie.local import layout

pytestmark = pytest.mark.slow

DEADLINE_S = 90.0


def serve(folder: Path, uri: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (bookie,) = layout.plan(folder, 1, None)
    layout.write_config(bookie, uri, journal_write_data=True, regeneration="gated")
    argv = [*local_support.BOOKIE, "serve", "--config", str(bookie.config), *flags]
    return subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def test_an_unreachable_metadata_store_is_told_with_its_address(tmp_path: Path) -> None:
    port = zookeeper_support.free_port()

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
