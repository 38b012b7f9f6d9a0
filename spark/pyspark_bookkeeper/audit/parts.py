"""Stores findings and figures on disk: one Parquet file per wave, written whole or not at all.

    FOLDER/plan.json             what is audited
    FOLDER/findings/*.parquet    findings; each file's footer has the figures of its wave
    FOLDER/summary.json, report.html

`spark.read.parquet(FOLDER/findings)` is the table of findings. A file is named after its wave, so that a repeated wave
overwrites its own file.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bookie.base import errors
from bookie.base.text import one_line
from pyspark_bookkeeper.audit import plan, tally
from pyspark_bookkeeper.audit.compare import ReplicaFinding
from pyspark_bookkeeper.audit.inspector import UnitResult
from pyspark_bookkeeper.audit.plan import AuditPlan
from pyspark_bookkeeper.audit.tally import Figures

SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("ledger", pa.int64(), nullable=False),
        pa.field("bookie", pa.string(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("last", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
FIGURES_KEY = b"bookie.figures"


class Folder:
    """The folder of one audit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan = path / "plan.json"
        self.findings = path / "findings"
        self.summary = path / "summary.json"
        self.report = path / "report.html"

    def begun(self) -> AuditPlan | None:
        """Return the plan of the audit that began in this folder, None without one. Raises BadInput when it cannot be
        read."""
        try:
            text = self.plan.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise errors.BadInput(f"the plan {self.plan} cannot be read ({error}): give another --output") from None
        return plan.load(text)

    def forget(self) -> None:
        """Remove the files of an earlier audit, and no other file of the folder."""
        # CRASH: the plan goes first. Without it there is no audit, whatever else is still there.
        with self.writing():
            for path in (self.plan, self.summary, self.report, *self.findings.glob("wave-*.parquet")):
                path.unlink(missing_ok=True)

    def begin(self, planned: AuditPlan) -> None:
        """Write the plan into the folder. Raises StorageFailed when nothing can be written there."""
        with self.writing():
            self.findings.mkdir(parents=True, exist_ok=True)
            write_whole(self.plan, plan.dump(planned).encode())

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Write into the folder within the block. Raises StorageFailed when the file system does not let it."""
        try:
            yield
        except OSError as error:
            raise errors.StorageFailed(
                f"the audit cannot write to {self.path}: {error.strerror or error}; make room there and give the same "
                "command again, which goes on, or give another --output"
            ) from None

    def has_wave(self, wave: int) -> bool:
        return self._part(wave).exists()

    def write_wave(self, wave: int, results: Sequence[UnitResult]) -> None:
        """Commit a wave. # CRASH: before the rename there is no part, after it a whole one."""
        findings = sorted(one for result in results for one in result.findings)
        figures = tally.total(result.figures for result in results)
        columns = [[getattr(one, name) for one in findings] for name in SCHEMA.names]
        table = pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)
        table = table.replace_schema_metadata({FIGURES_KEY: json.dumps(tally.nested(figures)).encode()})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        with self.writing():
            write_whole(self._part(wave), sink.getvalue().to_pybytes())

    def read(self, waves: int) -> tuple[list[ReplicaFinding], Figures]:
        """Return all findings and the sum of the figures of waves 0..waves-1. Raises BadInput for a file that is no
        part."""
        findings: list[ReplicaFinding] = []
        figures: list[Figures] = []
        for wave in range(waves):
            try:
                table = pq.read_table(self._part(wave))
                figures.append(tally.flat(json.loads(table.schema.metadata[FIGURES_KEY])))
                findings += [ReplicaFinding(**row) for row in table.to_pylist()]
            except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
                raise errors.BadInput(
                    f"{self._part(wave)} is no part of an audit ({one_line(str(error))}): remove it and give the same "
                    "command again, which looks at its ledgers anew"
                ) from None
        return findings, tally.total(figures)

    def _part(self, wave: int) -> Path:
        return self.findings / f"wave-{wave:05d}.parquet"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; until it is whole, it has a name that readers of folders skip."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
