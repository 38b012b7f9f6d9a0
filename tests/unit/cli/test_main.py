"""Exit codes and how errors are told (STYLE.md, 13)."""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from bookie.base import errors
from bookie.base.units import MIB
from bookie.cli import ledger, main, workload
from bookie.client import Client
from slow_pipe_support import feed


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.LedgerMissing("ledger 7 does not exist"), "ledger 7 does not exist: `bookie ledger list` shows"),
        (errors.RequestTimedOut("bookie b did not answer in time"), "in time: `bookie cluster list-bookies` shows"),
    ],
)
def test_what_the_library_says_is_told_with_the_next_thing_to_try(error: errors.BookieError, said: str) -> None:
    assert said in f"{error}{main._hint(error)}"


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


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("bookie.cli.main", ["settings", "show"]),
        ("bookie_operator.__main__", ["crds"]),
        ("bookie_operator.plugin", ["status"]),
        ("pyspark_bookkeeper.__main__", ["audit", "--help"]),
    ],
)
def test_without_asserts_no_program_of_ours_runs(module: str, arguments: list[str]) -> None:
    script = f"import sys; from {module} import main; sys.exit(main({arguments!r}))"
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 2, done
    assert "run without -O" in done.stderr
    assert not done.stdout


def test_without_asserts_the_library_is_no_client() -> None:
    script = """
import asyncio
from bookie.base.errors import RefusedToStart
from bookie.client.client import Client
async def one():
    async with Client(None, None):
        pass
try:
    asyncio.run(one())
except RefusedToStart as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=False)

    assert "run without -O" in done.stdout, done


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
    assert "authorizedRoles" in told, "with --config the certificate may be the wrong one"


def test_who_gave_a_wrong_password_is_told_that_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> int:
        raise errors.WrongPassword("ledger 1: the password is wrong; give the one it was created with")

    monkeypatch.setattr("bookie.cli.cluster.run_show", refused)

    assert main.main(["cluster", "show"]) == main.FAILED
    assert capsys.readouterr().err == "bookie: ledger 1: the password is wrong; give the one it was created with\n"


def test_help_begins_with_what_the_program_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--help"])

    after_usage = capsys.readouterr().out.split("\n\n")[1].lower()
    assert after_usage.startswith("run bookies"), after_usage
    assert "bookie local" in after_usage


def verbs_of(noun: str) -> list[argparse.ArgumentParser]:
    parser = main.parser_for([noun])
    found = [parser]
    for each in found:
        for action in each._actions:
            if isinstance(action, argparse._SubParsersAction) and (each is not parser or noun in action.choices):
                found += [action.choices[noun]] if each is parser else action.choices.values()
    return found[1:]


@pytest.mark.parametrize("noun", list(main.COMMANDS))
def test_every_command_says_in_a_sentence_what_it_does_and_explains_each_flag(noun: str) -> None:
    for parser in verbs_of(noun):
        assert parser.description is not None, parser.prog
        assert parser.description[0].isupper(), parser.prog
        assert parser.description.endswith("."), parser.prog
        assert len(parser.description.split()) >= 3, parser.prog
        for action in parser._actions:
            assert action.help or isinstance(action, argparse._SubParsersAction), (parser.prog, action.dest)


def test_help_of_all_commands_imports_none_of_them() -> None:
    script = "import sys; from bookie.cli import main; main.parser_for(['--help']); print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert "bookie.cli.main" in loaded
    assert [name for name in loaded if name.startswith(("bookie.client", "bookie.server", "grpc", "kazoo"))] == []


@pytest.mark.parametrize("verb", ["run", "write", "verify", "survey", "fenced"])
def test_every_verb_of_workload_that_needs_a_cluster_takes_its_security_from_a_settings_file(verb: str) -> None:
    (parser,) = (each for each in verbs_of("workload") if each.prog == f"bookie workload {verb}")

    assert {"--config", "--metadata-service-uri"} <= {flag for each in parser._actions for flag in each.option_strings}


def test_a_writer_process_is_given_what_its_run_was_given() -> None:
    words = ["workload", "run", "--log", "/log", "--metadata-service-uri", "zk+null://h/l", "--config", "/bookie.conf"]
    run = workload.run_of(main.parser_for(words).parse_args(words))

    assert run.cluster == ("--metadata-service-uri", "zk+null://h/l", "--config", "/bookie.conf")


def test_serve_hears_stop_signals_before_it_imports_the_bookie() -> None:
    script = "import sys, bookie.cli.serve; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    late = ("bookie.client", "bookie.server", "bookie.storage", "bookie.runtime.world", "grpc", "kazoo")
    assert [name for name in loaded if name.startswith(late)] == []


def test_a_bookie_without_certificates_carries_no_package_that_reads_them() -> None:
    served = "admin, admin_callers, http, metrics, world"
    script = f"import sys; from bookie.runtime import {served}; from bookie.server import bookie; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert "bookie.server.bookie" in loaded
    assert [name for name in loaded if name.startswith(("cryptography", "jks"))] == []


@pytest.mark.parametrize("stream", [1, 2])
def test_a_command_whose_output_is_closed_ends_as_any_other(tmp_path: Path, stream: int) -> None:
    command = f'exec "$0" -m bookie inspect directory "$1" {stream}>&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, str(tmp_path)], capture_output=True, timeout=120, check=False
    )
    assert done.returncode in (main.DONE, main.FAILED, main.USAGE, main.NOT_FOUND), done


_FIRST_LINES = "import asyncio; from bookie.cli import stdin_lines; asyncio.run(anext(stdin_lines.batches()))"


def test_a_line_that_does_not_end_is_refused_before_it_takes_all_memory(tmp_path: Path) -> None:
    endless = tmp_path / "endless"
    endless.write_bytes(bytes(6 * MIB))
    with endless.open("rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-c", _FIRST_LINES], stdin=stdin, capture_output=True, timeout=60, check=False
        )
    assert b"BadInput: stdin has a line of more than 5242880 bytes" in done.stderr, done


def test_no_ledger_is_made_for_a_closed_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(errors.BadInput, match="stdin is closed"):  # a client that is asked for anything is no client
        asyncio.run(ledger._write(cast(Client, object()), argparse.Namespace()))


def test_no_ledger_is_made_for_a_stdin_that_is_open_only_for_writing(tmp_path: Path) -> None:
    command = "from bookie.cli import stdin_lines; stdin_lines.check_open()"
    with (tmp_path / "output").open("wb") as stdin:
        done = subprocess.run(
            [sys.executable, "-c", command], stdin=stdin, capture_output=True, timeout=20, check=False
        )
    assert b"BadInput: stdin is open only for writing" in done.stderr, done


def test_a_write_from_a_closed_stdin_says_so_at_once() -> None:
    command = 'exec "$0" -c "$1" <&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, _FIRST_LINES], capture_output=True, timeout=20, check=False
    )
    assert b"BadInput: stdin is closed" in done.stderr, done


_COUNT_LINES = """
import asyncio
from bookie.cli import stdin_lines
async def count(): return sum([len(lines) async for lines in stdin_lines.batches()])
print(asyncio.run(count()))
"""


def test_lines_of_a_stdin_that_somebody_made_non_blocking_are_waited_for() -> None:
    """The ledger was left open after the first lines."""
    assert feed([sys.executable, "-c", _COUNT_LINES], [b"line\n"] * 50) == (b"50\n", b"")


def test_a_folder_as_stdin_ends_python_before_anything_is_done(tmp_path: Path) -> None:
    """CPython refuses it in init_sys_streams, before a line of ours: docs/CLI.md tells what a person sees."""
    words = ["sh", "-c", 'exec "$0" -m bookie ledger write < "$1"', sys.executable, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (main.FAILED, b"")
    assert b"<stdin> is a directory, cannot continue" in done.stderr
