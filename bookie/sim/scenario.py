"""Scenario files: one run of one seed, made small perhaps, with its story, to be sent with a bug and played again.

JSON. The story in it can be read anywhere; the run is the same only with the code that wrote it, which `commit` names.
"""

import errno
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookie.base.errors import BadInput

FORMAT = "bookie simulation 1"


@dataclass(frozen=True, slots=True)
class Scenario:
    """`flags`: of `python -m bookie.sim`. `ledger`: the one that the story is about. `story`: its lines, for people."""

    seed: int
    flags: tuple[str, ...]
    faults_s: float
    without: tuple[str, ...]
    ledger: int | None
    commit: str
    defect: str | None
    digest: str
    story: tuple[str, ...]

    def save(self, path: Path) -> None:
        fields = {name: getattr(self, name) for name in self.__slots__}
        path.write_text(json.dumps({"format": FORMAT, **fields}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def check(path: Path) -> None:
    """Raise OSError where no scenario could be saved: better before a long run than after it."""
    if path.is_fifo():
        raise OSError(errno.EINVAL, "it is a pipe, and no file", str(path))
    path.open("ab").close()


def read(path: Path) -> bytes:
    """Return the content of a file that a person named. Raises OSError; also for a pipe, which somebody would have to
    write to, and a device, which never ends."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is a pipe or a device, and no file")
    return path.read_bytes()


def load(path: Path) -> Scenario:
    """Read a scenario. Raises BadInput, naming what is wrong with it."""
    try:
        fields: dict[str, Any] = json.loads(read(path))
        assert fields.pop("format") == FORMAT
        for name in ("flags", "without", "story"):
            fields[name] = tuple(map(str, fields[name]))
        found = Scenario(**fields)
        assert isinstance(found.seed, int)
        assert isinstance(found.faults_s, int | float)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, AssertionError) as error:
        why = error.strerror if isinstance(error, OSError) else "a part of it is missing, or has another form"
        raise BadInput(f"{path} is no scenario of python -m bookie.sim --save: {why}") from None
    return found
