"""Help is shown to whoever asks for it, whatever else is wrong with what was typed, and costs no look at anything."""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from bookie.cli import main
from bookie_operator import __main__ as operator
from bookie_operator import plugin
from pyspark_bookkeeper import __main__ as spark


def leaves(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command."""
    verbs = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for name, verb in [each for action in verbs for each in action.choices.items()]:
        yield from leaves(verb, *words, name)
    if not verbs and parser.prog.split()[1:] == list(words):  # no alias
        yield words


VERBS = [words for noun in main.COMMANDS for words in leaves(main.parser_for([noun])) if words[0] == noun]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_help_wins_over_wrong_words_on_both_sides(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    for typed in ([*words, "a/b", "--no-such-flag", "--help"], [*words, "-h", "--config", ""]):
        with pytest.raises(SystemExit) as ended:
            main.main(typed)

        out, err = capsys.readouterr()
        assert (ended.value.code, err) == (0, ""), typed
        assert out.startswith(f"usage: bookie {' '.join(words)} "), typed


@pytest.mark.parametrize(
    ("run", "words", "begins"),
    [
        (main.main, ["ledger", "lst", "-h"], "usage: bookie ledger [-h] VERB"),
        (main.main, ["clustre", "show", "--help"], "usage: bookie [-h]"),
        (main.main, ["ledger", "--help", "read"], "usage: bookie ledger [-h] VERB"),
        (operator.main, ["run", "--http-port", "x", "--help"], "usage: bookie-operator run "),
        (operator.main, ["plan", "--no-such-flag", "-h"], "usage: bookie-operator plan "),
        (operator.main, ["plann", "-h"], "usage: bookie-operator [-h] COMMAND"),
        (plugin.main, ["why", "a", "b", "--no-such-flag", "-h"], "usage: kubectl bookies why "),
        (spark.main, ["audit", "--ask", "x", "--output", "", "-h"], "usage: pyspark_bookkeeper audit "),
    ],
)
def test_every_program_shows_the_help_of_the_innermost_verb_that_is_there(
    capsys: pytest.CaptureFixture[str], run: Callable[[list[str]], int], words: list[str], begins: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(words)

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(begins)


def test_what_stands_behind_two_dashes_asks_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["ledger", "show", "--", "-h"]) == 2

    assert "ledger id '-h' is not a number" in capsys.readouterr().err


def test_words_of_the_process_are_those_that_nobody_passed() -> None:
    code = "from bookie.base import help_first; help_first.Parser(prog='x').parse_args()"

    ended = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)

    assert ended.stdout.startswith("usage: x")
