"""The official client, unmodified, when a bookie of ours lost its disks and is in limbo: it writes on, reads, recovers.

One bookie of four is killed, emptied, granted a new life, and kept from repairing itself for as long as the tests run.
"""

import contextlib
import dataclasses
import os
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import children
import java_support
import local_support
import wait_support
from bookie.cli import main
from java_support import JavaClient, JavaGuest, JudgeError
from local_support import LocalBookie, LocalFleet

pytestmark = [pytest.mark.java, pytest.mark.slow]

DEADLINE_S = 90.0
# The repair waits: no writer is taken for dead, and an entry of 1 KiB is copied in a second.
HELD_BACK = "openLedgerRereplicationGracePeriod=3600000\ncopyRateBytesPerSecond=1024\n"
SIZE_BYTES = 1024
# What the official client makes of a bookie that does not know.
UNKNOWN = "BKUnexpectedConditionException"
ENTRIES = 300
# What the writer that goes on had written before the loss.
BEFORE = 40
# Ledgers of the killed writer: a wrong end would depend on whose answer comes first, so that many are asked.
LEFT = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Loss:
    """What was there when `victim` lost its disks.

    `writer`: a live one, after `BEFORE` entries. `closed`: on three bookies; `lone`, `lone_open`: on the victim only.
    `left`: ledger to how many entries a killed writer had acknowledged; the last one is on the victim and on one other,
    and the victim is asked first for it.
    """

    java: JavaClient
    victim: LocalBookie
    writer: dict[str, Any]
    closed: int
    lone: int
    lone_open: int
    left: dict[int, int]

    def is_in_limbo(self, ledger: int) -> bool:
        """The official client is not told which entries the victim has of `ledger`: the list might be short."""
        with pytest.raises(JudgeError) as told:
            self.java.ask("entries", ledger=ledger, bookie=self.victim.bookie_id, asked=[0])
        return told.value.name == UNKNOWN

    def unknown(self) -> int:
        """How often the victim has said that it does not know, in this life."""
        return self.counted('bookie_request_errors_total{status="EUNKNOWNLEDGERSTATE"}')

    def denied(self) -> int:
        """How often it has said that something is not there."""
        names = ("ENOENTRY", "ENOLEDGER")
        return sum(self.counted(f'bookie_request_errors_total{{status="{name}"}}') for name in names)

    def counted(self, name: str) -> int:
        address = f"http://127.0.0.1:{self.victim.metrics_port}/metrics"
        with urllib.request.urlopen(address, timeout=DEADLINE_S) as answer:
            lines = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[:1] != "#")
        return int(float(lines.get(name, 0)))


@pytest.fixture(scope="module")
def loss(folder: Path) -> Iterator[Loss]:
    """Ledgers of the official client on four bookies of ours, and then one bookie without its disks, in limbo."""
    home = folder / "limbo"
    home.mkdir()
    arguments = ("--journal-write-data", "false")
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(
            local_support.fleet(home / "fleet", home / "fleet.log", bookies=4, arguments=arguments)
        )
        java = stack.enter_context(JavaClient(fleet.uri, home / "java.log"))
        victim = fleet.bookies[0]
        left = leave_open(fleet, home, stack)
        writer = java_support.create_on(java, victim.bookie_id)
        payloads = contents(writer["ledger"], BEFORE)
        java.append(writer["handle"], payloads[:-1])
        java.append(writer["handle"], payloads[-1:])  # it carries the confirmation of all before it
        closed, lone = (
            close(java, write(java, victim, ensemble=count, write=count, ack=ack)) for count, ack in ((3, 2), (1, 1))
        )
        lone_open = write(java, victim, ensemble=1, write=1, ack=1)
        java.ask("forget", handle=lone_open["handle"])
        lose_everything(victim)
        run_again(victim, home / "victim.log", stack)
        grant(victim)
        wait_registered(home / "victim.log")
        loss = Loss(java, victim, writer, closed, lone, lone_open["ledger"], left)
        wait_support.wait_until(
            lambda: is_repair_stuck(loss, home / "victim.log"), "the repair's first round", timeout_s=DEADLINE_S
        )
        yield loss


def is_repair_stuck(loss: Loss, log: Path) -> bool:
    """Has it put every ledger off but `closed`, which it copies slowly? Until that ends it asks nobody anything."""
    put_off = log.read_text(encoding="utf-8").count("ledger not repaired yet ledger_id=")
    pending = loss.counted("bookie_repair_ledgers_pending")  # not told before all were looked at
    return pending > 0 and put_off >= pending - 1


def contents(ledger: int, count: int) -> list[bytes]:
    return list(java_support.payloads(ledger, count, SIZE_BYTES))


def write(java: JavaClient, victim: LocalBookie, **shape: int) -> dict[str, Any]:
    """A ledger of `ENTRIES` that has `victim` in its ensemble, and its writer."""
    made = java_support.create_on(java, victim.bookie_id, **shape)
    java.append(made["handle"], contents(made["ledger"], ENTRIES))
    return made


def close(java: JavaClient, writer: dict[str, Any]) -> int:
    java.ask("close", handle=writer["handle"])
    ledger: int = writer["ledger"]
    return ledger


def leave_open(fleet: LocalFleet, home: Path, stack: contextlib.ExitStack) -> dict[int, int]:
    """Open ledgers of a killed writer, each with its number of entries; of the last of each one bookie knows nothing.

    So that entry is on the victim and on one more: would the victim deny it, two noes of three would end the ledger
    before it.
    """
    victim, absent = fleet.bookies[:2]
    left: dict[int, int] = {}
    with JavaClient(fleet.uri, home / "killed.log") as killed:
        patient = JavaGuest(killed, "patient")  # a failed bookie stays in the ensemble while enough others answer
        patient.ask("connect", uri=fleet.uri, settings={"delayEnsembleChange": "true"})
        writers = [create_on_both(patient, victim, absent) for _ in range(LEFT)]
        for writer in writers:
            # The last entry id is one for which readers ask the victim's slot first.
            left[writer["ledger"]] = 19 + writer["slot"]
            patient.append(writer["handle"], contents(writer["ledger"], 18 + writer["slot"]))
        os.kill(absent.pid, signal.SIGTERM)
        wait_support.wait_until(lambda: not is_running(absent.pid), "an orderly stop", timeout_s=DEADLINE_S)
        for writer in writers:
            # One entry: a second one would be sent to a new ensemble, if the failure was seen by then.
            patient.append(writer["handle"], contents(writer["ledger"], left[writer["ledger"]])[-1:])
        os.kill(killed.pid, signal.SIGKILL)
    run_again(absent, home / "absent.log", stack)
    wait_registered(home / "absent.log")
    return left


def create_on_both(client: JavaGuest, victim: LocalBookie, absent: LocalBookie) -> dict[str, Any]:
    """A new ledger with both in its ensemble; `slot` is the victim's place there."""
    for _ in range(50):
        made = java_support.create_on(client, victim.bookie_id)
        ensemble = client.ask("metadata", ledger=made["ledger"])["segments"][0]["bookies"]
        if absent.bookie_id in ensemble:
            return {**made, "slot": ensemble.index(victim.bookie_id)}
    raise AssertionError("fifty ensembles without one bookie of four")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def lose_everything(victim: LocalBookie) -> None:
    """Kill it, and empty its directories; when it comes back its repair will wait."""
    os.kill(victim.pid, signal.SIGKILL)
    wait_support.wait_until(lambda: not is_running(victim.pid), "the end of the bookie", timeout_s=DEADLINE_S)
    for volume in (victim.journal, victim.ledgers, victim.index):
        shutil.rmtree(volume)
        volume.mkdir()
    with Path(victim.facts["config"]).open("a", encoding="utf-8") as settings:
        settings.write(HELD_BACK)


def run_again(bookie: LocalBookie, log: Path, stack: contextlib.ExitStack) -> None:
    """Start a bookie of the fleet again, until the stack ends it."""
    with log.open("ab") as talk:
        process = children.spawn([*local_support.BOOKIE, "serve", "--config", str(bookie.facts["config"])], stderr=talk)
    stack.callback(children.end, process, timeout_s=local_support.STOP_TIMEOUT_S)


def wait_registered(log: Path) -> None:
    wait_support.wait_until(
        lambda: "registered bookie_id=" in log.read_text(encoding="utf-8"),
        f"the bookie of {log.name}",
        timeout_s=DEADLINE_S,
    )


def grant(victim: LocalBookie) -> None:
    """Allow it to begin a new life on its empty disks, as soon as it asks."""
    words = ["integrity", "grant", "--admin", victim.admin, "--yes"]
    wait_support.wait_until(lambda: main.main(words) == 0, "the bookie to wait for its grant", timeout_s=DEADLINE_S)


def test_a_writer_changes_its_ensemble_where_a_bookie_lost_its_state_and_lives(loss: Loss) -> None:
    java, ledger, handle = loss.java, loss.writer["ledger"], loss.writer["handle"]
    payloads = contents(ledger, 5_000)
    reader = java.ask("open", ledger=ledger, recovery=False)
    assert loss.is_in_limbo(ledger)
    assert java.ask("lac", handle=reader["handle"])["last"] == BEFORE - 2
    assert java.read(reader["handle"], 0, BEFORE - 1, unconfirmed=True) == payloads[:BEFORE]

    written = list(range(BEFORE))
    count = 200  # many in flight when the first refusal comes

    def is_changed() -> bool:
        nonlocal count
        start = len(written)
        written.extend(java.append(handle, payloads[start : start + count]))
        count = 4
        return len(java.ask("metadata", ledger=ledger)["segments"]) == 2

    wait_support.wait_until(is_changed, "a new ensemble", timeout_s=DEADLINE_S)
    written.extend(java.append(handle, payloads[len(written) : len(written) + 200]))
    java.ask("close", handle=handle)

    assert written == list(range(len(written)))
    stored = java.ask("metadata", ledger=ledger)
    first, second = stored["segments"]
    assert (stored["state"], stored["last"]) == ("CLOSED", len(written) - 1)
    assert BEFORE <= second["first"] < len(written)  # what two acknowledged before the refusal came may stay as it is
    assert set(first["bookies"]) - set(second["bookies"]) == {loss.victim.bookie_id}
    whole = java.ask("open", ledger=ledger)
    assert java.read(whole["handle"], 0, whole["last"]) == payloads[: len(written)]
    assert loss.denied() == 0


@pytest.mark.parametrize("v2", [False, True])
def test_a_closed_ledger_is_read_whole_past_a_bookie_in_limbo(loss: Loss, v2: bool) -> None:
    assert loss.is_in_limbo(loss.closed)
    before = loss.unknown()

    with loss.java.guest("v2", v2=True) if v2 else contextlib.nullcontext(loss.java) as client:
        reader = client.ask("open", ledger=loss.closed)
        read = client.read(reader["handle"], 0, ENTRIES - 1)

    assert read == contents(loss.closed, ENTRIES)
    # A third of the entries is asked of it first; what the repair has brought back by now it may give.
    assert loss.unknown() - before > ENTRIES // 6
    assert loss.is_in_limbo(loss.closed)
    assert loss.denied() == 0


def test_what_only_a_bookie_in_limbo_had_is_unknown_and_not_absent(loss: Loss) -> None:
    reader = loss.java.ask("open", ledger=loss.lone)

    with pytest.raises(JudgeError, match=UNKNOWN):
        loss.java.read(reader["handle"], ENTRIES - 1, ENTRIES - 1)
    with pytest.raises(JudgeError, match="RecoveryException"):
        loss.java.ask("open", ledger=loss.lone_open)

    assert loss.java.ask("metadata", ledger=loss.lone_open)["state"] == "IN_RECOVERY"
    assert loss.denied() == 0


def test_recovery_ends_no_ledger_before_what_a_bookie_in_limbo_may_have_lost(loss: Loss) -> None:
    opened = {ledger: loss.java.ask("open", ledger=ledger) for ledger in loss.left}

    assert {ledger: reader["last"] + 1 for ledger, reader in opened.items()} == loss.left
    assert all(reader["closed"] for reader in opened.values())
    for ledger, reader in opened.items():
        assert loss.java.read(reader["handle"], 0, reader["last"]) == contents(ledger, loss.left[ledger])
    assert loss.denied() == 0


def test_what_is_there_is_read_from_a_bookie_in_limbo(loss: Loss) -> None:
    opened = {ledger: loss.java.ask("open", ledger=ledger) for ledger in loss.left}  # which writes the last entry again
    assert loss.is_in_limbo(min(loss.left))
    assert loss.is_in_limbo(max(loss.left))
    unknown, reads = loss.unknown(), loss.counted("bookie_reads_total")

    for ledger, reader in opened.items():
        (last,) = loss.java.read(reader["handle"], reader["last"], reader["last"])
        assert last == contents(ledger, loss.left[ledger])[-1]

    assert loss.counted("bookie_reads_total") - reads == LEFT
    assert loss.unknown() == unknown
