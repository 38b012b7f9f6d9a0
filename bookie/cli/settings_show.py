"""`bookie settings show`: print every setting, its value and where the value came from."""

import argparse
import json
import sys

from bookie.base import errors
from bookie.cli import output, server_options, settings


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    verb = output.add_verb(verbs, "show", "show every setting, its value and where the value came from")
    settings.add_flags(verb)
    verb.add_argument("--changed", action="store_true", help="show only settings that are not defaults")
    verb.add_argument("--json", action="store_true", help="print one JSON object")
    verb.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    loaded = settings.load(arguments)
    completed, _ = server_options.complete(loaded)
    shown = [value for value in completed.values.values() if not (arguments.changed and value.is_default)]
    if arguments.json:
        print(json.dumps({value.setting.key: {"value": value.text, "origin": value.origin} for value in shown}))
    else:
        width = max((len(value.setting.key) for value in shown), default=0)
        for value in shown:
            print(f"{value.setting.key:<{width}} = {value.text}  # {value.origin}")
    for warning in loaded.warnings:
        print(f"bookie: {warning}", file=sys.stderr)
    try:
        server_options.build(loaded)
    except errors.BadInput:
        if arguments.json:
            return 0  # programs ask for values; `bookie serve` tells the problems
        raise
    return 0
