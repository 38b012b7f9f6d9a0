"""Everything that is to go on for long: `soak.py [--only CAMPAIGN] [--rounds N] [--seeds N]`; `make soak`.

hostile clients   a bookie meets thousands of idle, cut and slow connections; they must cost it little
kills             writers note every acknowledged entry in a log of their own; each round kills one of four bookies with
                  kill -9 at a random moment and starts it again with journalWriteData on or off, as drawn; at the end
                  every noted entry is read back
mixed kills       the same with two of the four bookies Java's
chaos             the same writers before bookies on machines and disks of their own: SIGSTOP, cut networks, ZooKeeper
                  frozen and killed, full, slow and failing disks, clocks that jump, no memory and no descriptors left,
                  kill -9, drawn one after the other; needs root
storage engine    the engine alone under simulated kills and power cuts, seed after seed (`soak_storage`)

One campaign that finds something does not keep the others from running. The last line sums up; exit code 1 if anything
was found. 0 leaves a campaign out; `--only` leaves out all others (`soak_arguments`).
"""

import json
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("", "tests/support", "tests/cluster")]

import chaos_support  # noqa: E402
import hostile_support  # noqa: E402
import local_support  # noqa: E402
import soak_arguments  # noqa: E402
import soak_support  # noqa: E402

OFFICIAL = 2  # bookies of a mixed fleet that are Java's

Result = tuple[str, bool]  # what was seen, and whether it is good


def hostile(folder: Path, connections: int) -> Result:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the bookie inherits it
    idle = min(connections, hard - 1000)
    print(f"hostile clients: {idle} idle connections (open files: {soft} → {hard})", flush=True)
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=1) as fleet:
        bookie = fleet.bookies[0]
        seen = hostile_support.run(bookie.pid, bookie.port, idle=idle, cut=200, slow=20)
    print(seen, flush=True)
    problems = list(seen.problems())
    return f"{idle} idle connections: {'; '.join(problems) or 'cheap'}", not problems


def kills(folder: Path, rounds: int, seed: int, rate_per_s: float, *, official: int = 0) -> Result:
    began = time.monotonic()
    with soak_support.soaking(folder, seed=seed, official=official) as soak:
        soak.start_writing(rate_per_s)
        for _ in range(rounds):
            print(soak.kill_one(), flush=True)
        verdict = soak.verify()
    of_whom = f", {official} of {soak_support.BOOKIES} bookies official" if official else ""
    print(f"{rounds} kills in {time.monotonic() - began:.0f} s{of_whom}: {json.dumps(verdict)}", flush=True)
    is_good = bool(verdict["clean"]) and verdict["verified"] > 0
    told = "nothing lost" if is_good else "LOST OR CHANGED"
    return f"{rounds} kills{of_whom}, {verdict['verified']} entries: {told}", is_good


def chaos(folder: Path, faults: int, seed: int, rate_per_s: float) -> Result:
    if reason := chaos_support.why_not():
        return f"chaos: NOT DONE, {reason}", True
    began = time.monotonic()
    with chaos_support.chaos(folder, seed=seed) as fleet:
        fleet.start(rate_per_s)
        for number in range(faults):
            print(f"fault {number + 1}: {fleet.fault()}", flush=True)
        verdict = fleet.verify()
    print(f"{faults} faults in {time.monotonic() - began:.0f} s: {json.dumps(verdict)}", flush=True)
    is_good = bool(verdict["clean"]) and verdict["verified"] > 0
    return (
        f"{faults} faults, {verdict['verified']} entries: {'nothing lost' if is_good else 'LOST OR CHANGED'}",
        is_good,
    )


def engine(seed: int, seeds: int) -> Result:
    import soak_storage  # it imports the simulator, which the others need not

    print(f"storage engine: {seeds} seeds from {seed}", flush=True)
    found = soak_storage.soak(seed, seeds)
    return f"storage engine, {soak_storage.lives_of(seeds)}: {len(found)} defects", not found


def judged(name: str, campaign: Callable[[], Result]) -> Result:
    """Run one; what it asserts in vain (a bookie that does not come back) is a finding too."""
    try:
        return campaign()
    except AssertionError as broken:
        traceback.print_exc()
        return f"{name}: {broken!s:.200}", False


def main() -> int:
    arguments = soak_arguments.parse(None, __doc__.splitlines()[0])
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        folders = {name: Path(folder) / name for name in ("hostile", "kills", "mixed", "chaos")}
        for one in folders.values():
            one.mkdir()
        campaigns: list[tuple[int, str, Callable[[], Result]]] = [
            (arguments.connections, "hostile clients", lambda: hostile(folders["hostile"], arguments.connections)),
            (arguments.rounds, "kills", lambda: kills(folders["kills"], arguments.rounds, seed, arguments.rate)),
            (
                arguments.mixed,
                "mixed kills",
                lambda: kills(folders["mixed"], arguments.mixed, seed, arguments.rate, official=OFFICIAL),
            ),
            (arguments.faults, "chaos", lambda: chaos(folders["chaos"], arguments.faults, seed, arguments.rate)),
            (arguments.seeds, "storage engine", lambda: engine(seed, arguments.seeds)),
        ]
        results = [judged(name, campaign) for wanted, name, campaign in campaigns if wanted]
    is_good = all(good for _, good in results)
    told = "; ".join(text for text, _ in results) or "nothing was asked for"
    print(f"soak {'ok' if is_good else 'FAILED'} in {time.monotonic() - began:.0f} s, seed {seed}: {told}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
