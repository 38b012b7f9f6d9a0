"""A bookie that is known by an address of IPv6 and not by a name: its id in the metadata store has colons, and clients
and commands reach it."""

import asyncio
import contextlib
import io
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import children
import local_support
import port_support
import wait_support
import zookeeper_support
from bookie.cli import main
from bookie.connect import connect

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this kernel has no IPv6")]
ENTRIES = [b"one", b"two"]
HOST = "::1"


@pytest.fixture(scope="module")
def bookie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, int]]:
    """Its cluster's URI, its settings file, the port of its data."""
    folder = tmp_path_factory.mktemp("six")
    port, admin, metrics = port_support.free_ports(3)
    settings, log = folder / "bookie.properties", folder / "bookie.log"
    with zookeeper_support.running(folder) as zookeeper, log.open("wb") as talk:
        assert main.main(["cluster", "init", "--metadata-service-uri", zookeeper.uri]) == 0
        settings.write_text(
            f"metadataServiceUri={zookeeper.uri}\nbookiePort={port}\nadminPort={admin}\nmetricsPort={metrics}\n"
            f"advertisedAddress={HOST}\nlisteningAddress={HOST}\nallowLoopback=true\nvolumeProof=none\n"
            f"journalDirectories={folder}/journal\nledgerDirectories={folder}/ledgers\ndiskUsageThreshold=0.99\n"
        )
        command = [*local_support.BOOKIE, "serve", "--config", str(settings)]
        process = children.spawn(command, stderr=talk, stdout=subprocess.DEVNULL)

        def serves() -> bool:
            assert process.poll() is None, children.tail(log)
            with contextlib.redirect_stdout(io.StringIO()) as told:
                main.main(["node", "show", "--config", str(settings)])
            return ": SERVING" in told.getvalue()

        try:
            wait_support.wait_until(serves, "the command of its settings file reaches it", timeout_s=60)
            yield zookeeper.uri, settings, port
        finally:
            process.terminate()
            process.wait(timeout=60)


def test_it_is_listed_by_an_address_that_can_be_dialled(
    bookie: tuple[str, Path, int], capsys: pytest.CaptureFixture[str]
) -> None:
    uri, _, port = bookie

    assert main.main(["cluster", "list-bookies", "--metadata-service-uri", uri, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["id"], found["address"]) == (f"{HOST}:{port}", f"[{HOST}]:{port}")
    assert found["endpoints"] == [f"bookie-rpc://[{HOST}]:{port}"]


def test_entries_are_written_and_read_there(bookie: tuple[str, Path, int]) -> None:
    uri, _, port = bookie

    async def story() -> list[bytes]:
        async with connect(uri) as client:
            writer = await client.create(ensemble_size=1, write_quorum=1, ack_quorum=1)
            await writer.append_many(ENTRIES)
            await writer.close()
            assert writer.metadata.last_segment.bookies == (f"{HOST}:{port}",)
            async with await client.open(writer.id) as reader:
                return [bytes(entry.payload) for entry in await reader.read(0, reader.last_confirmed)]

    assert asyncio.run(story()) == ENTRIES
