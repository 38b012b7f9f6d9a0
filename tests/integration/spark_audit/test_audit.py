"""The audit as it is run: a command, a JVM, tasks in worker processes, real bookies; killed half-way and run again.

Which losses are found is judged seed by seed in tests/simulation/test_audit_truth.py; here the same must come out of
the whole of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import children
import local_support
import wait_support
from bookie import blocking
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.wire.digest import Digest, DigestType
from local_support import LocalFleet
from pyspark_bookkeeper.audit import plan
from pyspark_bookkeeper.audit.inspector import Rules
from pyspark_bookkeeper.audit.parts import Folder

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "audit.yaml"
LEDGERS, ENTRIES = 1_000, 6
LOST, MOVED = 80, 20
TIMEOUT_S = 240.0
DIGEST = Digest(DigestType.CRC32C, b"")
# Two waves of ten: what is killed after the first has something to go on with.
SLICES = ("--unit-ledgers", "60", "--wave-units", "2")
Rows = set[tuple[str, int, str, int, int, int]]


class Planted:
    """Ledgers written replica by replica, some of them left out: what the audit must say of them."""

    def __init__(self, fleet: LocalFleet) -> None:
        self.random = random.Random("planted")
        self.bookies = [BookieId(bookie.bookie_id) for bookie in fleet.bookies]
        self.rows: Rows = set()

    async def write(self, client: Client) -> None:
        at_once = asyncio.Semaphore(64)

        async def one(number: int) -> None:
            async with at_once:
                await self._ledger(client, number)

        await asyncio.gather(*(one(number) for number in range(LEDGERS)))

    async def _ledger(self, client: Client, number: int) -> None:
        ensemble = tuple(self.random.sample(self.bookies[:4], 3))
        metadata = new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=ensemble, ctoken=number + 1)
        ledger_id = await client.shared.ledgers.create(metadata.closed(EntryId(ENTRIES - 1), 0))
        bodies = [DIGEST.seal(ledger_id, EntryId(entry), entry - 1, 0, b"payload") for entry in range(ENTRIES)]
        of = {b: [e for e in range(ENTRIES) if b in metadata.write_set(EntryId(e))] for b in ensemble}
        victim = self.random.choice(ensemble)
        lost = self.random.sample(of[victim], self.random.randint(1, len(of[victim]))) if number < LOST else []
        for bookie, entries in of.items():
            for entry in entries:
                if bookie != victim or entry not in lost:
                    body = b"".join(bodies[entry])
                    await client.bookies.add(bookie, ledger_id, EntryId(entry), body, DIGEST.master_key)
        self._missing(ledger_id, victim, of[victim], lost)
        if LOST <= number < LOST + MOVED:
            await self._move(client, ledger_id, victim, of[victim])

    async def _move(self, client: Client, ledger_id: LedgerId, old: BookieId, entries: list[int]) -> None:
        """The metadata names the last bookie, which never had any ledger of ours."""
        metadata, version = await client.shared.ledgers.get(ledger_id)
        new = self.bookies[4]
        await client.shared.ledgers.put(ledger_id, _replaced(metadata, old, new), version)
        self._missing(ledger_id, new, entries, entries)
        self.rows.add(("unexpected", ledger_id, old, entries[0], entries[-1], len(entries)))

    def _missing(self, ledger_id: LedgerId, bookie: BookieId, all_of_it: list[int], lost: list[int]) -> None:
        """One row for each run of lost entries with none between them that is there."""
        run: list[int] = []
        for entry in [*all_of_it, ENTRIES]:
            if entry in lost:
                run.append(entry)
            elif run:
                self.rows.add(("missing", ledger_id, bookie, run[0], run[-1], len(run)))
                run = []


def _replaced(metadata: LedgerMetadata, old: BookieId, new: BookieId) -> LedgerMetadata:
    return metadata.replaced(EntryId(0), old, new)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("audit-fleet")
    with local_support.fleet(folder / "data", folder / "log", bookies=5) as running:
        yield running


@contextlib.contextmanager
def writer(uri: str) -> Iterator[None]:
    """Somebody who writes all the time: one ledger that stays open, and ledgers that come and go."""
    stop = threading.Event()

    async def write(client: Client) -> None:
        steady = await client.create()
        while not stop.is_set():
            await steady.append(b"steady")
            async with await client.create() as brief:
                await brief.append_many([b"brief"] * 5)
            await client.shared.pause(20)

    with blocking.connect(uri) as client:
        thread = threading.Thread(target=client.run, args=(write,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def command(uri: str, output: Path, *words: str) -> list[str]:
    audit = [
        sys.executable,
        "-m",
        "pyspark_bookkeeper",
        "audit",
        "--metadata-service-uri",
        uri,
        "--output",
        str(output),
    ]
    return [*audit, "--master", "local[2]", "--grace-s", "0", "--second-look-s", "1", *words]


def kill_after_first_wave(argv: list[str], output: Path, log: Path) -> None:
    """SIGKILL for the command, its JVM and its workers: all processes that it started."""
    with log.open("ab") as talk:
        process = children.spawn(argv, stderr=talk)
    try:
        wait_support.wait_until(
            lambda: process.poll() is not None or (output / "findings" / "wave-00000.parquet").exists(),
            "the first wave",
            timeout_s=TIMEOUT_S,
        )
        assert process.poll() is None, f"it ended before it could be killed: {children.tail(log)}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        children.end(process, timeout_s=10.0)


def run(argv: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=wait_support.patient(TIMEOUT_S), check=False, env=env
    )


@pytest.mark.slow
def test_a_killed_audit_run_again_finds_every_planted_loss_and_nothing_else(fleet: LocalFleet, tmp_path: Path) -> None:
    planted = Planted(fleet)
    with blocking.connect(fleet.uri) as client:
        client.run(planted.write)
    output = tmp_path / "audit"
    argv = command(fleet.uri, output, *SLICES)

    with writer(fleet.uri):
        kill_after_first_wave(argv, output, tmp_path / "killed.log")
        assert not (output / "summary.json").exists()
        again = run(argv)

    assert again.returncode == 5, again.stderr
    assert "goes on where it was" in again.stderr
    table = pq.read_table(output / "findings").to_pylist()
    found = {tuple(row[name] for name in ("kind", "ledger", "bookie", "first", "last", "count")) for row in table}
    assert found == planted.rows
    assert len(table) == len(found)
    told: dict[str, Any] = json.loads(again.stdout)
    assert told == json.loads((output / "summary.json").read_text())
    assert told["ledgers"]["closed"] >= LEDGERS
    assert told["ledgers"]["open"] >= 1
    assert (told["outcome"], told["exitCode"]) == ("damage", 5)
    assert 0 < told["copies"]["read"] < told["copies"]["expected"]
    assert told["copies"]["missing"] == sum(row[5] for row in planted.rows if row[0] == "missing")
    assert "Replicas are missing" in (output / "report.html").read_text()

    refused = run(argv)

    assert refused.returncode == 4
    assert "holds a finished audit" in refused.stderr


@pytest.mark.slow
def test_an_unfinished_audit_goes_on_with_the_same_options_only(fleet: LocalFleet, tmp_path: Path) -> None:
    output = tmp_path / "audit"
    begun = plan.make(
        uri=fleet.uri,
        started_ms=time.time_ns() // 1_000_000,
        options={"--ledgers": "1-2", "--grace-s": "0", "--second-look-s": "1", "--ask": "all", "--read": "all"},
        rules=Rules(),
        zones={},
        known=[],
        ledger_ids=[LedgerId(1)],
        wave_units=1,
    )
    Folder(output).begin(begun)

    done = run(command(fleet.uri, output, "--ledgers", "1-2", "--read", "none"))

    assert (done.returncode, done.stdout) == (4, "")
    assert "was begun with --read all (now none), and is not finished: give the same options" in done.stderr


@pytest.mark.slow
def test_the_nightly_example_works_every_night_whatever_became_of_the_fleet(tmp_path: Path) -> None:
    """Same folder, three nights: all are there; one bookie is gone; two are, and nobody can tell where the open ledger
    ends. A fleet of its own, to which nobody else writes."""
    (job,) = [one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one["kind"] == "Job"]
    words = job["spec"]["template"]["spec"]["containers"][0]["args"][2:]
    output = tmp_path / "latest"
    nights = []
    with local_support.fleet(tmp_path / "data", tmp_path / "log", bookies=3) as night:
        write_some(night.uri, open_ledgers=1)
        nights.append(audited_night(night, words, output))
        for lost in night.bookies[:2]:
            os.kill(lost.pid, signal.SIGKILL)
            nights.append(audited_night(night, words, output))

    whole, one_gone, two_gone = nights
    assert (whole["exitCode"], whole["outcome"]) == (0, "whole")
    assert whole["title"].startswith("Every replica is listed; ")
    assert (one_gone["exitCode"], one_gone["outcome"]) == (6, "not known")
    assert one_gone["copies"]["unreachable"] > 0
    assert two_gone["ledgers"]["unsure"] == 1
    assert (two_gone["exitCode"], two_gone["outcome"]) == (6, "not known")
    assert "Not every replica could be seen" in (output / "report.html").read_text()
    kinds = {row["kind"] for row in pq.read_table(output / "findings").to_pylist()}
    assert kinds == {"unreachable", "unsure"}


def write_some(uri: str, *, open_ledgers: int = 0) -> None:
    """Closed ledgers on all of three bookies, and some whose writers are gone."""
    with blocking.connect(uri) as client:
        for _ in range(5):
            with client.create() as writer:
                writer.append_many([b"payload" * 100] * 20)
        for _ in range(open_ledgers):
            client.create().append_many([b"open"] * 3)


def audited_night(fleet: LocalFleet, words: list[str], output: Path) -> dict[str, Any]:
    """The command of the example, in this fleet and folder; what it says on stdout and by its exit code agree."""
    ours = {"--metadata-service-uri": fleet.uri, "--output": str(output), "--master": "local[2]", "--grace-s": "0"}
    argv = [sys.executable, "-m", *(f"{word.split('=')[0]}={ours.get(word.split('=')[0], word.partition('=')[2])}"
                                     if "=" in word else word for word in words)]  # fmt: skip
    done = run([*argv, "--second-look-s=0.5"])
    assert done.stdout, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == told["exitCode"], done.stderr
    assert told["title"] in done.stderr
    return told


@pytest.mark.slow
@pytest.mark.parametrize("reads", ["none", "sample", "all"])
def test_entry_logs_of_zeros_are_found_by_who_reads_and_nobody_else_says_fine(tmp_path: Path, reads: str) -> None:
    with local_support.fleet(tmp_path / "data", tmp_path / "log", bookies=3) as zeroed:
        write_some(zeroed.uri)
        for bookie in zeroed.bookies:
            flush = [sys.executable, "-m", "bookie", "node", "checkpoint", "--admin", bookie.admin]
            subprocess.run(flush, check=True, capture_output=True, timeout=60)
            for log in bookie.ledgers.rglob("*.log"):
                with log.open("r+b") as file:
                    file.write(bytes(log.stat().st_size))

        done = run(command(zeroed.uri, tmp_path / "audit", "--read", reads))

    told = json.loads(done.stdout)
    if reads == "none":
        assert (told["exitCode"], told["title"]) == (0, "Every replica is listed; bytes were not read")
    else:
        assert told["exitCode"] in (5, 6), told
        assert told["outcome"] in ("damage", "not known")
    assert "Every replica is there" not in (tmp_path / "audit" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--fail-on", "rust"], 2, "there are missing, corrupt, unexpected, unreachable, unsure, young"),
        (["--ledgers", "9-5"], 2, "is empty"),
        (["--ledgers", "seven"], 2, "seven"),
        (["--unit-ledgers", "0"], 2, "at least 1"),
    ],
)
def test_bad_words_are_told_before_anything_starts(tmp_path: Path, words: list[str], code: int, complaint: str) -> None:
    done = run(command("zk+hierarchical://127.0.0.1:1/ledgers", tmp_path / "audit", *words))

    assert done.returncode == code
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_without_java_there_is_one_sentence_and_nothing_in_the_folder(fleet: LocalFleet, tmp_path: Path) -> None:
    done = run(command(fleet.uri, tmp_path / "audit"), JAVA_HOME="/no/java/here")

    assert done.returncode == 2
    assert "JAVA_HOME is /no/java/here" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "audit").exists()


@pytest.mark.slow
def test_a_ledger_that_is_not_there_is_not_found(fleet: LocalFleet, tmp_path: Path) -> None:
    done = run(command(fleet.uri, tmp_path / "audit", "--ledgers", "123456789"))

    assert done.returncode == 3
    assert "there is no ledger 123456789" in done.stderr
