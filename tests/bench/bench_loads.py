"""The loads, and the least figure of each: the one table that a verdict is measured by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

READ_ENTRIES = 50_000  # of a ledger to read: 50 MB, more than any read-ahead, and filled in seconds
IDLE_RSS_MB_MAX = 60.0  # of a bookie of ours that was just started
MEMORY_LEAST = 8.0  # official resident memory / ours, after the run
ADDS = {"load": "adds", "window": 4000}
RANDOM = {"load": "reads", "window": 1000, "random": True}
# Ranges of 100 entries, 40 of them in flight: what a reader that catches up asks.
SEQUENTIAL = {"load": "reads", "window": 40, "batch": 100}
THREE = {"load": "adds", "window": 2000, "size": 1024, "ensemble": 3, "write": 3, "ack": 2}
# Ledgers go on with the two bookies that are left, as nobody else is there; the third one is taken back when it serves.
THREE_PATIENT = {**THREE, "patient": True}
MANY = {**ADDS, "size": 1024, "v2": True, "ledgers": 1000}
HALF = {**ADDS, "size": 1024, "v2": True}
# Reads go on too, some and never all.
READ_SOME = {"load": "reads", "v2": True, "number": 1, "random": True, "window": 1000, "pace": 1000.0}
HALF_AND_READS = {**HALF, "beside": READ_SOME}
# At a pace, so that both sides are asked the same; reads come from a client of their own.
BESIDE = {"load": "reads", "v2": True, "number": 1, "random": True, "window": 1000, "pace": 2000.0, "beside": HALF}


@dataclass(frozen=True, slots=True)
class Load:
    """One row. `least`: the ratio, ours to theirs, of operations a second, or of operations per CPU second; theirs to
    ours where a latency is the `figure`.

    `cache`: what reads find, "warm" or "cold". `has_own_client`: ours is asked by our client, theirs by Java's.
    `is_without_client`: the figure is of a CPU second of the bookie alone, as the client's part, which is the same on
    both sides, would hide what the row is about.
    `share`: both are asked at one pace, this share of what the slower of them takes. `rounds_most`: of a row whose
    rounds last as long as something takes.
    """

    name: str
    title: str
    least: float
    question: dict[str, Any]
    ours: str = "ours"
    theirs: str = "official"
    p99_most: float | None = None  # ours to theirs
    p999_most: float | None = None
    cache: str | None = None
    has_own_client: bool = False
    is_without_client: bool = False
    latency: str | None = None  # judged by this field of a round
    share: float | None = None
    meanwhile: str | None = (
        None  # what happens in the middle of each round: "restart" of one bookie, "compaction", "scrub"
    )
    rounds_most: int | None = None

    @property
    def unit(self) -> str:
        return "adds" if self.question["load"] == "adds" else "reads"

    @property
    def figure(self) -> str:
        """Return the field of a round that the ratio is of."""
        if self.is_without_client:
            return "per_bookie_cpu_s"
        return self.latency or ("per_cpu_s" if self.has_own_client else "rate")


LOADS = (
    Load("adds-v3", "v3, 1 KiB, 4,000 in flight", 1.25, {**ADDS, "size": 1024}, p99_most=1.0),
    Load("adds-v2", "v2, 1 KiB, 4,000 in flight", 1.25, {**ADDS, "size": 1024, "v2": True}, p99_most=1.0),
    Load("adds-v3-100b", "v3, 100 B, 4,000 in flight", 1.0, {**ADDS, "size": 100}),
    Load("adds-v2-100b", "v2, 100 B, 4,000 in flight", 1.0, {**ADDS, "size": 100, "v2": True}),
    Load("adds-1000-ledgers", "v2, 1 KiB, 4,000 in flight, to 1,000 open ledgers in turn", 1.0, MANY),
    Load("adds-10000-ledgers", "the same, to 10,000 ledgers", 1.0, {**MANY, "ledgers": 10_000}),
    Load("adds-100-clients", "the same, to 1,000 ledgers, of 100 clients", 1.0, {**MANY, "clients": 100}),
    Load("adds-1000-connections", "the same, of 1,000 connections", 1.0, {**MANY, "connections": 1000}),
    Load(
        "adds-three",
        "three bookies, 3/3/2, v3, 1 KiB, 2,000 in flight, the Java client",
        1.0,
        THREE,
        ours="ours-three",
        theirs="official-three",
    ),
    Load(
        "adds-half",
        "p99 of adds at half of what the slower side takes, v2, 1 KiB",
        1.0,
        HALF,
        p999_most=1.0,
        latency="p99_ms",
        share=0.5,
    ),
    Load(
        "restart",
        "seconds from the stop of one of three bookies until it serves again, beside adds as in `adds-three` at half of"
        " what the slower side takes",
        1.0,
        THREE_PATIENT,
        ours="ours-three",
        theirs="official-three",
        latency="back_s",
        share=0.5,
        meanwhile="restart",
        rounds_most=3,
    ),
    Load(
        "adds-beside-compaction",
        "p99 of adds at half of what the slower side takes, beside compaction and 1,000 reads a second, v2, 1 KiB",
        1.0,
        HALF_AND_READS,
        ours="ours-compacting",
        theirs="official-compacting",
        cache="warm",
        latency="p99_ms",
        share=0.5,
        meanwhile="compaction",
        rounds_most=3,
    ),
    Load(
        "adds-beside-scrub",
        "p99 of adds at half of what the slower side takes, beside a scrub and 1,000 reads a second, v2, 1 KiB",
        1.0,
        HALF_AND_READS,
        ours="ours-scrubbing",
        theirs="official-scrubbing",
        cache="warm",
        latency="p99_ms",
        share=0.5,
        meanwhile="scrub",
    ),
    Load(
        "scrub-cost",
        "the same of ours, beside our own that does not scrub",
        0.8,
        HALF_AND_READS,
        ours="ours-scrubbing",
        theirs="ours",
        cache="warm",
        latency="p99_ms",
        share=0.5,
        meanwhile="scrub",
    ),
    Load(
        "adds-unjournaled",
        "adds of a CPU second of the bookie, v3, 1 KiB, journalWriteData=false, beside our own with it",
        1.5,
        {**ADDS, "size": 1024},
        ours="ours-unjournaled",
        theirs="ours",
        is_without_client=True,
    ),
    Load(
        "adds-unjournaled-both",
        "v3, 1 KiB, 4,000 in flight, journalWriteData=false on both sides",
        1.25,
        {**ADDS, "size": 1024},
        ours="ours-unjournaled",
        theirs="official-unjournaled",
    ),
    Load("reads-warm-random", "random reads, 1 KiB, warm", 1.0, RANDOM, cache="warm"),
    Load("reads-warm-sequential", "sequential reads, 1 KiB, warm", 1.0, SEQUENTIAL, cache="warm"),
    Load("reads-cold-random", "random reads, 1 KiB, cold", 1.0, {**RANDOM, "once": True}, cache="cold"),
    Load("reads-cold-sequential", "sequential reads, 1 KiB, cold", 1.0, {**SEQUENTIAL, "once": True}, cache="cold"),
    Load(
        "reads-beside-adds",
        "p99 of 2,000 random reads a second, warm, beside all the adds it takes, v2, 1 KiB",
        1.0,
        BESIDE,
        cache="warm",
        latency="p99_ms",
    ),
    Load(
        "client",
        "our client and bookies, 3/3/2, 1 KiB: entries per CPU second of all",
        1.0,
        THREE,
        ours="ours-three",
        theirs="official-three",
        has_own_client=True,
    ),
)
MEMORY = "memory"
NAMES = (*(load.name for load in LOADS), MEMORY)

# Rows that a commit may not make slower, ours now to ours then (`--against`): every one that has a side of its own.
AGAINST_LEAST = 0.95
AGAINST = tuple(
    replace(load, theirs=load.theirs.replace("official", "before"), least=AGAINST_LEAST, p99_most=None, p999_most=None)
    for load in LOADS
    if load.theirs.startswith("official")
)

# The bound of a row of adds: what one loop of Python could do with all the rest removed, in place of our bookie.
BARE = tuple(
    replace(load, ours="bare", p99_most=None, p999_most=None)
    for load in LOADS
    if load.ours == "ours" and load.theirs == "official" and load.question["load"] == "adds" and load.question.get("v2")
)
