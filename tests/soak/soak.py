"""Kill real bookies under load, and be a bad client to one: `soak.py [--rounds N] [--connections N]`; `make soak`.

Writers note every acknowledged entry in a log of their own. Each round kills one of four bookies with kill -9 at a
random moment and starts it again with journalWriteData on or off, as drawn. At the end every noted entry is read back:
exit code 1 if one is missing or differs. Before that a bookie meets thousands of idle, cut and slow connections.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("", "tests/support", "tests/cluster")]

import hostile_support  # noqa: E402
import local_support  # noqa: E402
import soak_support  # noqa: E402


def hostile(folder: Path, connections: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the bookie inherits it
    idle = min(connections, hard - 1000)
    print(f"hostile clients: {idle} idle connections (open files: {soft} → {hard})", flush=True)
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=1) as fleet:
        bookie = fleet.bookies[0]
        print(hostile_support.run(bookie.pid, bookie.port, idle=idle, cut=200, slow=20), flush=True)


def kills(folder: Path, rounds: int, seed: int, rate_per_s: float) -> bool:
    """True when nothing is lost."""
    began = time.monotonic()
    with soak_support.soaking(folder, seed=seed) as soak:
        soak.start_writing(rate_per_s)
        for _ in range(rounds):
            print(soak.kill_one(), flush=True)
        verdict = soak.verify()
    print(f"{rounds} kills in {time.monotonic() - began:.0f} s: {json.dumps(verdict)}")
    return bool(verdict["clean"]) and verdict["verified"] > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--connections", type=int, default=10_000, help="0: no hostile clients")
    parser.add_argument("--rate", type=float, default=300.0, help="entries per second")
    parser.add_argument("--seed", type=int, default=None, help="default: the time")
    arguments = parser.parse_args()
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        if arguments.connections:
            (Path(folder) / "hostile").mkdir()
            hostile(Path(folder) / "hostile", arguments.connections)
        if arguments.rounds:
            (Path(folder) / "kills").mkdir()
            return 0 if kills(Path(folder) / "kills", arguments.rounds, seed, arguments.rate) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
