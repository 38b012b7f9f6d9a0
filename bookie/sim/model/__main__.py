"""`python -m bookie.sim.model`: explore every space with all guards on, then tell the story of each guard's absence.

    python -m bookie.sim.model                    the small spaces and every story, seconds
    python -m bookie.sim.model --large            the large spaces too, minutes
    python -m bookie.sim.model --without NAME     one story; `--guards` lists the names

Exit code 0: nothing broke with all guards on, and each story was found; 1 otherwise.
"""

import argparse
import sys

from bookie.sim.model import guards, spaces
from bookie.sim.model.states import Space


def main(arguments: list[str]) -> int:
    """Run; print what was seen. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bookie.sim.model", description=__doc__.partition("\n")[0])
    parser.add_argument("--large", action="store_true", help="the large spaces too")
    parser.add_argument(
        "--without",
        metavar="NAME",
        choices=sorted(spaces.CASES | spaces.PAPER_CASES),
        help="tell the story of one guard",
    )
    parser.add_argument("--guards", action="store_true", help="list the guards")
    options = parser.parse_args(arguments)
    if options.guards:
        for name, (rule, text) in (guards.GUARDS | guards.ON_PAPER).items():
            print(f"{name:24} {rule:4} {text}")
        return 0
    if options.without:
        return 0 if _story(options.without) else 1
    chosen = spaces.SMALL | spaces.PAPER | (spaces.LARGE if options.large else {})
    are_whole = [_space(name, space) for name, space in chosen.items()]
    are_needed = [_story(name) for name in spaces.CASES | spaces.PAPER_CASES]
    return 0 if all(are_whole) and all(are_needed) else 1


def _space(name: str, space: Space) -> bool:
    seen = spaces.run(space)
    print(f"{name}: {seen.states} states, {seen.depth} steps deep: {seen.broken or 'nothing broke'}")
    _tell(seen.story)
    return seen.broken is None


def _story(guard: str) -> bool:
    rule, text = (guards.GUARDS | guards.ON_PAPER)[guard]
    seen = spaces.run((spaces.PAPER_CASES | spaces.CASES)[guard]._replace(off=frozenset({guard})))
    print(f"\nwithout {guard} ({rule}: {text}), found among {seen.states} states:")
    _tell(seen.story)
    print(f"  => {seen.broken or 'nothing broke'}")
    return seen.broken is not None


def _tell(story: tuple[str, ...]) -> None:
    for number, line in enumerate(story, 1):
        print(f"  {number:2} {line}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
