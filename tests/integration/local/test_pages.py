"""The pages' commands for one machine, as printed; only what the page calls a placeholder is filled in."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import children
import local_support
import pages_support
import wait_support
from bookie import blocking

pytestmark = pytest.mark.slow

START_TIMEOUT_S = 180.0


def test_the_readmes_lines_for_one_machine_work(tmp_path: Path) -> None:
    page = pages_support.block("README.md", "Try it by hand")
    install, serve, write = (_here(line, tmp_path) for line in page.text.splitlines())

    pages_support.run(install, timeout_s=600)
    with (tmp_path / "log").open("wb") as talk:
        fleet = children.spawn(["bash", "-c", f"cd {pages_support.ROOT}; exec {serve}"], stderr=talk)
    try:
        uri = json.loads(local_support.first_line(fleet, tmp_path / "log"))["metadataServiceUri"]
        port = re.search(r":(\d+)/", uri)
        assert port, uri
        told = pages_support.run(write.replace("PORT", port.group(1)), timeout_s=120)
    finally:
        children.end(fleet, timeout_s=local_support.STOP_TIMEOUT_S)

    assert "entry 9" in told
    assert "1010 entries" in told


def test_the_oracles_lines_write_stop_and_verify(tmp_path: Path) -> None:
    page = pages_support.block("docs/DEMO.md", "The oracle")
    with local_support.fleet(tmp_path / "data", tmp_path / "fleet.log", bookies=3) as fleet:
        lines = [line.replace("URI", fleet.uri) for line in page.text.splitlines()]
        run, stop, verify = (_here(line.replace("DIR", str(tmp_path / "oracle")), tmp_path) for line in lines)
        with (tmp_path / "writers.log").open("wb") as talk:
            writers = children.spawn(["bash", "-c", f"cd {pages_support.ROOT}; exec {run}"], stderr=talk)
        try:
            # The first samples may be of writers that have not connected yet: nothing acknowledged is nothing proven.
            wait_support.wait_until(
                lambda: json.loads(local_support.first_line(writers, tmp_path / "writers.log"))["acknowledged"] > 0,
                "an acknowledged entry",
                timeout_s=START_TIMEOUT_S,
            )
            pages_support.run(stop, timeout_s=120)
        finally:
            children.end(writers, timeout_s=60)
        told = pages_support.run(verify, timeout_s=300)

    assert "lost" in told


def test_the_audits_line_looks_at_a_fleet_and_writes_its_report(tmp_path: Path) -> None:
    page = pages_support.block("docs/PIPELINE.md", "Audit")
    with local_support.fleet(tmp_path / "data", tmp_path / "fleet.log", bookies=3) as fleet:
        with blocking.connect(fleet.uri) as client, client.create() as writer:
            writer.append_many([b"looked at"] * 100)
        line = page.text.replace("zk+hierarchical://zk:2181/ledgers", fleet.uri)

        pages_support.run(_here(line.replace("audits/", f"{tmp_path}/audits/"), tmp_path), timeout_s=300)

    assert (tmp_path / "audits" / "monday" / "report.html").exists(), list((tmp_path / "audits").rglob("*"))


def test_a_users_program_passes_mypy_strict(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr


def _here(line: str, tmp_path: Path) -> str:
    """The line for this machine: our own environment's commands, a folder of the test's."""
    command = line.partition("#")[0].strip().replace("/tmp/ledgers", str(tmp_path / "ledgers"))
    return re.sub(
        r"^(?:bookie|python -m (\S+)) ", lambda it: f"{sys.executable} -m {it.group(1) or 'bookie'} ", command
    )


PROGRAM = """
import asyncio
from collections.abc import Iterable

from bookie import blocking
from bookie.base.errors import BookieError
from bookie.base.ids import LedgerId
from bookie.client import Client, ClientOptions
from bookie.connect import connect


async def copy(uri: str, rows: Iterable[bytes]) -> int:
    async with connect(uri, add_timeout_ms=5000) as client:
        async with await client.create(password=b"secret") as writer:
            last: int = await writer.append(b"first")
            ids: range = await writer.append_many(list(rows))
        async with await client.open(writer.id, b"secret") as reader:
            total = sum([len(entry.payload) async for entry in reader.read_stream(0, reader.last_entry)])
            for entry in await reader.read(0, last):
                total += entry.entry_id
        await client.delete(writer.id)
        return total + len(ids)


def known(client: Client, options: ClientOptions) -> tuple[str, Client]:
    return options.metadata_uri, client


def ids(uri: str) -> list[LedgerId]:
    try:
        with blocking.connect(uri) as client:
            return list(client.ledgers())
    except BookieError as error:
        raise SystemExit(str(error)) from None


asyncio.run(copy("zk://127.0.0.1:2181/ledgers", [b"a"]))
"""
