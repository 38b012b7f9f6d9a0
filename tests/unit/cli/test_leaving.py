"""What `node drain` and `cluster references` print, and their exit codes: what was not seen is never called empty."""

import argparse
import json

import pytest

from bookie.base.ids import LedgerId
from bookie.cli import main, node, references
from bookie.ports.admin import BlockedLedger, DrainStatus, References


def asked(*, status: bool = False, cancel: bool = False, as_json: bool = False, dead: str = "") -> argparse.Namespace:
    return argparse.Namespace(status=status, cancel=cancel, json=as_json, dead=dead)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (DrainStatus(is_draining=True, is_empty=True), 0),
        (DrainStatus(is_draining=True), 6),
        (DrainStatus(is_draining=True, ledgers_left=3), 6),
        (DrainStatus(), 6),
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_only_an_empty_bookie_ends_the_look_with_0(status: DrainStatus, code: int, *, as_json: bool) -> None:
    assert node.tell_drain(asked(status=True, as_json=as_json), status) == code


def test_a_drain_that_began_and_one_that_was_cancelled_are_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert node.tell_drain(asked(), DrainStatus(is_draining=True)) == 0
    assert "`bookie node drain --status` shows how far it is" in capsys.readouterr().err
    assert node.tell_drain(asked(cancel=True), DrainStatus()) == 0
    assert node.tell_drain(asked(cancel=True), DrainStatus(is_draining=True)) == 1
    assert "goes on by itself" not in capsys.readouterr().err


LIVES = DrainStatus(is_draining=True, error="bookie b:1 is alive: let it empty itself, or stop it")
UNKNOWN = DrainStatus(is_draining=True, error="this cluster knows no bookie b:1", is_unknown=True)


@pytest.mark.parametrize(
    ("status", "is_new", "code", "said"),
    [
        (LIVES, True, 4, "b:1 is alive: let it empty itself, or stop it; nothing was begun"),
        (LIVES, False, 4, "a drain of before goes on trying until `bookie node drain --cancel --dead b:1` ends it"),
        (UNKNOWN, True, 3, "knows no bookie b:1; nothing was begun"),
        (UNKNOWN, False, 3, "`bookie node drain --cancel --dead b:1` ends it"),
        (DrainStatus(), True, 4, "somebody ended the drain of b:1 meanwhile"),
        (DrainStatus(), False, 4, "`bookie node drain --dead b:1` begins it again"),
    ],
)
def test_of_two_orders_to_empty_one_bookie_both_end_as_either_would_alone(
    status: DrainStatus, code: int, said: str, *, is_new: bool
) -> None:
    error = node.why_not_emptied("b:1", status, is_new=is_new)

    assert error is not None
    assert (main.exit_code(error), said in str(error)) == (code, True), error


def test_a_dead_bookie_that_is_emptied_is_no_error() -> None:
    for status in (DrainStatus(is_draining=True), DrainStatus(is_draining=True, is_empty=True)):
        assert node.why_not_emptied("b:1", status, is_new=True) is None


@pytest.mark.parametrize("option", ["--open-ledgers", "--bytes-per-second"])
@pytest.mark.parametrize("only", ["--status", "--cancel"])
def test_a_look_or_a_cancel_takes_no_order_how_to_drain(
    option: str, only: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value = {"--open-ledgers": "wait", "--bytes-per-second": "0"}[option]

    assert main.main(["node", "drain", only, option, value, "--admin", "127.0.0.1:1"]) == 2

    assert (
        f"{option} is for a drain that begins or goes on: leave it out, or leave out {only}" in capsys.readouterr().err
    )


def test_what_is_not_moved_is_shown_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    blocked = (BlockedLedger(LedgerId(7), "no other bookie"),)

    node.tell_drain(asked(status=True), DrainStatus(is_draining=True, ledgers_left=1, blocked=blocked, blocked_count=1))

    assert capsys.readouterr().out.splitlines()[-2:] == ["LEDGER  NOT MOVED YET BECAUSE", "     7  no other bookie"]


def test_references_are_told_and_end_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    found = References("b:1", 2, (BlockedLedger(LedgerId(7), "OPEN"),), unreadable=1)

    assert references.tell(asked(), found) == 1
    assert "2 ledgers name b:1, 1 of them because their records cannot be read" in capsys.readouterr().out
    assert references.tell(asked(as_json=True), found) == 1
    assert json.loads(capsys.readouterr().out)["count"] == 2


def test_no_reference_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert references.tell(asked(), References("b:1", 0)) == 0
    assert capsys.readouterr().out == "0 ledgers name b:1\n"
