"""What `make soak` was asked for: how much of each campaign, and which of them alone. Pure."""

import argparse
from collections.abc import Sequence

CAMPAIGNS = {
    "connections": (10_000, "idle hostile clients"),
    "rounds": (200, "kills"),
    "mixed": (40, "kills in a fleet with official bookies; needs Java"),
    "faults": (60, "of the machines; needs root"),
    "seeds": (500, "of the storage engine"),
}
"""By option: how much of it unless something else is said, and what is counted."""


def parse(words: Sequence[str] | None, about: str) -> argparse.Namespace:
    """Return how much of each campaign is wanted, 0 for none, and `rate` and `seed`. `words`: those of the command
    line. With `--only` the others are 0; who gives the amount of one that is left out is told so, and nothing runs."""
    parser = argparse.ArgumentParser(description=about)
    for name, (amount, counted) in CAMPAIGNS.items():
        parser.add_argument(f"--{name}", type=_amount, metavar="N", help=f"{counted} ({amount}; 0: none)")
    parser.add_argument("--only", action="append", choices=CAMPAIGNS, help="leave the others out (may be repeated)")
    parser.add_argument("--rate", type=float, default=300.0, help="entries per second")
    parser.add_argument("--seed", type=int, default=None, help="default: the time")
    found = parser.parse_args(words)
    for name, (amount, _) in CAMPAIGNS.items():
        given, is_left_out = getattr(found, name), found.only is not None and name not in found.only
        if is_left_out and given:
            parser.error(f"--only leaves --{name} {given} out: add --only {name}, or take --{name} away")
        setattr(found, name, 0 if is_left_out else amount if given is None else given)
    return found


def _amount(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 0 on")
    return int(text)
