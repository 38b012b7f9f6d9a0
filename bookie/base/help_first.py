"""A command line's parser that shows help to whoever asks for it, whatever is wrong with the other words.

argparse goes from left to right: `ledger read abc --help` was told that abc is no ledger, and no help.
"""

import argparse
import sys
from collections.abc import Sequence

_ASKS = ("-h", "--help")


def position(words: Sequence[str]) -> int | None:
    """Return where help is asked for; None where it is not. Behind `--` stand no flags."""
    for index, word in enumerate(words):
        if word == "--":
            return None
        if word in _ASKS:
            return index
    return None


class Parser(argparse.ArgumentParser):
    """A parser, and of its verbs too: the verb that stands before `--help` shows its help, before it judges a word."""

    def parse_known_args(  # type: ignore[override]  # argparse would take any namespace; ours are its own
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        asked = position(words)
        if asked is not None and not self._verbs() & set(words[:asked]):
            self.print_help()
            self.exit()
        return super().parse_known_args(words, namespace)

    def _verbs(self) -> set[str]:
        return {name for each in self._actions if each.nargs == argparse.PARSER for name in each.choices or ()}
