"""`bookie settings show`: every setting, its value and where the value came from."""

import argparse
import json
from typing import Any

from bookie.cli import settings


def add_parser(nouns: Any) -> None:
    noun = nouns.add_parser("settings", help="what a bookie would be told")
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    verb = verbs.add_parser("show", help="every setting, its value and where the value came from")
    settings.add_flags(verb)
    verb.add_argument("--json", action="store_true", help="one object, for programs")
    verb.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    loaded = settings.load(arguments)
    if arguments.json:
        values = loaded.values.values()
        print(json.dumps({value.setting.key: {"value": value.text, "origin": value.origin} for value in values}))
        return 0
    width = max(map(len, loaded.values))
    for key, value in loaded.values.items():
        print(f"{key:<{width}} = {value.text}  # {value.origin}")
    loaded.server_options()  # the problems, if there are any
    return 0
