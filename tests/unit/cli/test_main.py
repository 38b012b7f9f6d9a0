"""Exit codes and how errors are told (STYLE.md, 13)."""

import json
import subprocess
import sys

import pytest

from bookie.base import errors
from bookie.cli import main


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.BadInput("x"), 2),
        (errors.LedgerMissing("x"), 3),
        (errors.NobodyAudits("x"), 3),
        (errors.GrantRefused("old_epoch", "x"), 4),
        (errors.RefusedToStart("x"), 1),
        (errors.MetadataError("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: errors.BookieError, code: int) -> None:
    assert main.exit_code(error) == code


def test_an_error_is_one_sentence_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["serve", "--config", "/nowhere"]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("bookie: settings file /nowhere cannot be read")


def test_settings_show_tells_every_setting_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["settings", "show", "--json", "--bookie-port", "7"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown["bookiePort"] == {"value": "7", "origin": "--bookie-port"}


@pytest.mark.slow
def test_without_asserts_nothing_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-m", "bookie", "settings", "show"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "run without -O" in done.stderr


def test_who_is_not_let_in_hears_of_both_ways_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> int:
        raise errors.Unauthorized("bookie b0 answered EUA")

    monkeypatch.setattr("bookie.cli.cluster.run_show", refused)

    assert main.main(["cluster", "show"]) == main.FAILED
    told = capsys.readouterr().err
    assert told.startswith("bookie: bookie b0 answered EUA")
    assert "--password" in told
    assert "--config" in told
