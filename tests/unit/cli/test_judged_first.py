"""What is wrong whatever the cluster says is told before a command connects: who mistypes must not wait for it."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie.base.ids import BookieId
from bookie.cli import main, output, where
from bookie.metadata import cookie
from bookie.metadata.cookie import Cookie
from bookie.runtime import given_file

NOUNS = [noun for noun in main.COMMANDS if noun not in ("serve", "settings", "local", "inspect")]
NOBODY = {"--metadata-service-uri": "zk://127.0.0.1:1/ledgers", "--admin": "127.0.0.1:1"}
# Of flags that must stand there; and of positional arguments, by their metavar.
GIVEN = {"--log": "FOLDER", "--plans": "steady", "--rate": "1", "--entries-per-ledger": "1", "--ledgers": "1"}
GIVEN |= {"--bookie": "b:1", "--reason": "why", "LEDGER": "7", "BOOKIE": "b:1", "FILE": "/dev/null"}
# Flags that mean something only beside another one.
BESIDE = {"--before-ms": ["--replicas-of", "b:1"], "--seconds": ["b:1"]}
BOOKIES = ("--bookie", "--dead", "--missing", "--naming", "--replicas-of", "--name")


def parsers(noun: str) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of each verb."""
    found = [main.parser_for([noun])]
    for parser in found:
        verbs = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        found += [verb for each in verbs for name, verb in each.choices.items() if noun in (name, *verb.prog.split())]
        if not verbs:
            yield parser


def typed(parser: argparse.ArgumentParser, folder: Path) -> list[str]:
    """Return a command without a mistake, but that nobody is where it connects to."""
    words = parser.prog.split()[1:]
    for action in parser._actions:
        flag = action.option_strings[-1] if action.option_strings else ""
        if flag in NOBODY:
            words += [flag, NOBODY[flag]]
        elif action.required and flag:
            words += [flag, GIVEN[flag].replace("FOLDER", str(folder))]
        elif action.required:
            words.append(GIVEN[str(action.metavar)])
    return words


def mistakes() -> Iterator[tuple[argparse.ArgumentParser, list[str]]]:
    """Yield each verb that connects, with a flag that cannot be meant."""
    for parser in (parser for noun in NOUNS for parser in parsers(noun)):
        for action in parser._actions:
            flag = action.option_strings[-1] if action.option_strings else ""
            if action.nargs is None and flag in BOOKIES:
                yield parser, [flag, "a/b"]
            elif action.nargs is None and isinstance(action.default, int | float | None) and is_number(action):
                yield parser, [*BESIDE.get(flag, []), flag, "-1"]
                yield parser, [*BESIDE.get(flag, []), flag, str(10**30)]


def is_number(action: argparse.Action) -> bool:
    return (callable(action.type) and action.type is float) or getattr(action.type, "__module__", "") == output.__name__


FOUND = [pytest.param(parser, more, id=f"{parser.prog} {' '.join(more)}") for parser, more in mistakes()]


def test_the_walk_finds_the_flags() -> None:
    found = [str(each.id) for each in FOUND]

    assert "bookie ledger read --first -1" in found
    assert "bookie node drain --dead a/b" in found
    assert "bookie workload verify --replicas-of a/b" in found
    assert len(found) > 50


@pytest.mark.parametrize(("parser", "more"), FOUND)
def test_a_flag_that_cannot_be_meant_is_judged_before_a_command_connects(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    parser: argparse.ArgumentParser,
    more: list[str],
) -> None:
    monkeypatch.setattr(where, "SESSION_MS", 1)

    assert main.main([*typed(parser, tmp_path), *more]) == main.USAGE

    assert capsys.readouterr().err.startswith("bookie")


CLUSTER = ["--metadata-service-uri", NOBODY["--metadata-service-uri"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ledger", "read", "7", *CLUSTER, "--first", "2", "--last", "1"], "--last 1 is before --first 2"),
        (["ledger", "read", "7", *CLUSTER, "--bookie", "b:1", "--follow"], "leave out --follow and --recover"),
        *(([*verb, *CLUSTER, "--write-quorum", "9"], "quorum") for verb in (["ledger", "create"], ["ledger", "write"])),
        *(([*verb, *CLUSTER, "--ack-quorum", "9"], "quorum") for verb in (["test", "sanity"], ["test", "speed"])),
        (["ledger", "create", *CLUSTER, "--custom", "key=" + "x" * 2**20], "custom has "),
        (["node", "drain", "--admin", "127.0.0.1:1", "--status", "--open-ledgers", "wait"], "--open-ledgers is for"),
        (
            ["autorecovery", "maintenance", *CLUSTER, "b:1", "--seconds", "9", "--reason", "x" * 5000],
            "a maintenance le",
        ),
        (["autorecovery", "run", *CLUSTER, "--metrics", "nowhere"], "--metrics 'nowhere' is not HOST:PORT"),
        (["workload", "verify", *CLUSTER, "--log", "/proc", "--before-ms", "1"], "add --replicas-of BOOKIE"),
        (["ledger", "accept-loss", "7", *CLUSTER, "--bookie", "b:1", "--reason", " "], "--reason"),
        *(
            (["ledger", "accept-loss", "7", *CLUSTER, "--bookie", "b:1", "--reason", "r", "--sign-with", key], said)
            for key, said in (
                ("/nowhere", "--sign-with /nowhere cannot be read"),
                ("COOKIE", "is no private key in PEM"),
            )
        ),
        (
            ["ledger", "accept-loss", "7", *CLUSTER, "--bookie", "b:1", "--reason", "r", "--config", "KEY"],
            "lossSigningKeyFile (KEY:1) /nowhere cannot be read",
        ),
        (["ledger", "losses", *CLUSTER, "--trusted", "/nowhere"], "--trusted /nowhere cannot be read"),
        (["ledger", "show", "7", *CLUSTER, "--trusted", "COOKIE"], "COOKIE is no public key in PEM"),
        (["metadata", "dump", "7", *CLUSTER, "--output", "/nowhere/x"], "/nowhere/x cannot be written: "),
        (["metadata", "dump", "7", *CLUSTER, "--output", "/proc"], "/proc cannot be written: "),
        (["cookie", "create", *CLUSTER, "other:1", "COOKIE"], "is the cookie of b:1, not of other:1"),
        (["cookie", "check", *CLUSTER, "--config", "SETTINGS"], "bookiePort"),
        (["cookie", "check", "--config", "/dev/null"], "no cluster"),
        (["cookie", "generate", *CLUSTER, "--config", "SETTINGS"], "bookiePort"),
        (["cookie", "generate", *CLUSTER, "--config", "/dev/null", "--output", "/nowhere/x"], "/nowhere/x cannot be"),
    ],
)
def test_what_contradicts_itself_is_judged_before_a_command_connects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.setattr(where, "SESSION_MS", 1)
    (tmp_path / "COOKIE").write_bytes(cookie.dump_cookie(Cookie(BookieId("b:1"), ("/j",), ("/l",), (), "instance")))
    (tmp_path / "SETTINGS").write_text("bookiePort=x\n")
    (tmp_path / "KEY").write_text("lossSigningKeyFile=/nowhere\n")
    files = ("COOKIE", "SETTINGS", "KEY")

    assert main.main([str(tmp_path / word) if word in files else word for word in words]) == main.USAGE

    err = capsys.readouterr().err.replace(f"{tmp_path}/", "")
    assert said in err
    assert err.count("\n") == 1


def test_a_cookie_is_not_read_before_the_other_words_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe is waited for: whoever mistyped a flag behind it waited first."""
    monkeypatch.setattr(given_file, "PATIENCE_S", 0.01)
    os.mkfifo(tmp_path / "pipe")

    assert main.main(["cookie", "create", "b:1", str(tmp_path / "pipe"), "--no-such-flag"]) == main.USAGE

    assert "does not know --no-such-flag" in capsys.readouterr().err
