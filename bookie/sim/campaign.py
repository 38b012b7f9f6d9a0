"""A campaign: many seeds under every aspect in turn, each result one line of JSON in a file that the next start goes on
with; and the report over such files.

Several processes, on any machines, take parts of the same seeds into files of their own. A file belongs to one commit,
as the seeds do: the first line says what the caller calls it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bookie.base.errors import BadInput
from bookie.sim import probes, scenario
from bookie.sim.run import SeedOutcome

# Flags of `python -m bookie.sim`, seed after seed. Plain runs have all faults, so they come more often.
ROTA: tuple[tuple[str, ...], ...] = (
    (),
    ("accidents",),
    ("client",),
    (),
    ("crowd",),
    ("retire",),
    ("fill",),
    ("twins",),
    ("replicate",),
    ("auto", "retire", "varied"),
    ("auto", "retire", "surplus"),
    ("anew",),
    ("auto", "retire", "varied", "anew"),
    ("gated",),
    ("varied",),
    ("varied", "gated"),
    ("bound",),
    ("bound", "accidents"),
    ("bound", "twins"),
    ("bound", "varied"),
    ("bound", "gated"),
    ("bound", "anew"),
    ("bound", "fill"),
    ("bound", "auto", "retire", "varied"),
    ("touch",),
    ("touch", "accidents"),
    ("touch", "crowd"),
    ("touch", "bound", "anew"),
)


_HEAD = frozenset({"commit"})
_RECORDED = frozenset({"seed", "defect", "steps", "acknowledged", "read", "ledgers", "seconds", "broke", "reached"})


def flags_of(seed: int) -> tuple[str, ...]:
    """Return the aspects of a campaign's seed."""
    return ROTA[seed % len(ROTA)]


@dataclass(frozen=True, slots=True)
class SeedShare:
    """One of `count` processes that share the seeds; `number` from 1 on."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "SeedShare":
        """Parse `2/4`. Raises ValueError."""
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise ValueError(f"{text!r} is not a part I/N with I from 1 to N")
        return cls(int(number), int(count))

    def seeds(self, first: int, count: int) -> list[int]:
        """Return this part of the seeds from `first` on: whole turns of the rota, so that each part has all aspects."""
        return [seed for seed in range(first, first + count) if seed // len(ROTA) % self.count == self.number - 1]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file. One that a kill cut off, which can only be the last, is none. Raises BadInput."""
    try:
        data = scenario.read(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}: name the file that --campaign wrote") from None
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if line.endswith(b"\n"):
            yield _loaded(line, f"{path}, line {number}", _HEAD if number == 1 else _RECORDED)


def _loaded(line: bytes, where: str, wanted: frozenset[str]) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not wanted <= found.keys():
        raise BadInput(f"{where} is no record of a campaign: name a file that --campaign wrote, or a new one")
    return found


def record(path: Path, commit: str, seeds: Iterable[int], run: Callable[[int], SeedOutcome]) -> int:
    """Run the seeds that the file does not have yet, and append each outcome. Returns how many were run.

    Raises BadInput when the file is another commit's."""
    done: set[int] = set()
    if path.exists():
        head, *rest = list(_lines(path)) or [{"commit": commit}]
        if head["commit"] != commit:
            raise BadInput(f"{path} is of commit {head['commit']}, where seeds mean something else: take a new file")
        done = {line["seed"] for line in rest}
        data = path.read_bytes()
        path.write_bytes(data[: data.rfind(b"\n") + 1])
    if not path.exists() or not path.stat().st_size:
        path.write_text(json.dumps({"commit": commit}) + "\n", encoding="utf-8")
    count = 0
    with path.open("a", encoding="utf-8") as file:
        for seed in seeds:
            if seed not in done:
                file.write(json.dumps(_record(run(seed))) + "\n")
                file.flush()
                count += 1
    return count


def _record(outcome: SeedOutcome) -> dict[str, Any]:
    return {
        "seed": outcome.seed,
        "defect": outcome.defect,
        "digest": outcome.digest,
        "steps": outcome.steps,
        "acknowledged": outcome.acknowledged,
        "read": outcome.read,
        "ledgers": outcome.ledgers,
        "seconds": round(outcome.virtual_s),
        "broke": outcome.broke,
        "reached": outcome.reached,
    }


@dataclass(slots=True)
class Report:
    """The sum over files. `reached`: in how many seeds each probe was."""

    seeds: int = 0
    sums: Counter[str] = field(default_factory=Counter)
    broke: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    defects: dict[int, str] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)

    @property
    def not_reached(self) -> list[str]:
        return [name for name in probes.NAMES if not self.reached[name]]

    def add(self, line: Mapping[str, Any]) -> None:
        self.seeds += 1
        self.sums.update({name: line[name] for name in ("steps", "acknowledged", "read", "ledgers", "seconds")})
        self.broke.update(line["broke"])
        self.reached.update(line["reached"].keys())
        if line["defect"] is not None:
            self.defects[line["seed"]] = line["defect"]

    def text(self) -> str:
        """Return what a person reads: sums, what broke, the probes with the rarest first, and each defect's command."""
        sums = ", ".join(f"{count:,} {name}" for name, count in self.sums.items())
        broke = ", ".join(f"{count:,} {name}" for name, count in self.broke.most_common())
        lines = [f"{self.seeds:,} seeds of {' '.join(self.commits)}: {sums}", f"broke: {broke or 'nothing'}", ""]
        for name in sorted(probes.NAMES, key=lambda one: (self.reached[one], one)):
            seen = self.reached[name]
            lines.append(f"{f'in {seen:,} seeds' if seen else 'NOT REACHED':>20}  {name}")
        for seed, defect in sorted(self.defects.items()):
            flags = "".join(f" --{flag}" for flag in flags_of(seed))
            lines += ["", f"DEFECT {defect}", f"  again: python -m bookie.sim {seed:#x}{flags} --trace"]
        lines += ["", f"{len(self.defects)} defects, {len(self.not_reached)} probes not reached"]
        return "\n".join(lines)


def report(paths: Sequence[Path]) -> Report:
    """Sum up the files of a campaign; a seed that stands in two of them counts once."""
    total, seen = Report(), set[int]()
    for path in paths:
        head, *rest = list(_lines(path)) or [{}]
        if not head:
            raise BadInput(f"{path} is empty: name a file that --campaign wrote")
        if head["commit"] not in total.commits:
            total.commits.append(head["commit"])
        for line in rest:
            if line["seed"] not in seen:
                seen.add(line["seed"])
                total.add(line)
    return total
