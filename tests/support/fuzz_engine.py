"""A small fuzzer guided by coverage: mutates a corpus, and keeps what reaches new steps of our code.

What a target may do with any bytes at all: take them, or raise one of its `typed` errors; within CPU_MS_MAX, and
without much memory. Everything else, an assertion of the target's own included, is a finding.
"""

import random
import resource
import struct
import sys
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = (str(ROOT / "bookie"), str(ROOT / "operator"))

INPUT_BYTES_MAX = 16 * 1024
CPU_MS_MAX = 2_000  # of one input; generous, since machines stall
TRACED_ONE_IN = 8  # inputs run under the tracer, which makes them some ten times slower
CORPUS_MAX = 2_000

Check = Callable[[bytes], None]
_NUMBERS = (
    0,
    1,
    2,
    7,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
)


@dataclass(frozen=True)
class Target:
    """`corpus`: well-formed inputs. `check` raises nothing but `typed` for any bytes. `words`: worth inserting."""

    name: str
    corpus: Sequence[bytes]
    check: Check
    typed: tuple[type[Exception], ...]
    words: Sequence[bytes] = ()


@dataclass
class Tally:
    """What a run did. `rss_grown_kib`: how much the process's peak grew meanwhile."""

    inputs: int = 0
    refused: int = 0
    corpus: int = 0
    lines: int = 0
    slowest_ms: float = 0.0
    rss_grown_kib: int = 0
    seconds: float = 0.0


@dataclass
class Finding(Exception):
    """An input that a target neither took nor refused as it should."""

    target: str
    data: bytes
    reason: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.target}: {self.reason}\n    input ({len(self.data)} bytes): {self.data.hex()}"


@dataclass
class Fuzzer:
    """One target and one stream of draws. `run_one` for each input, or `run` until a bound is reached."""

    target: Target
    seed: int
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._draw = random.Random(f"{self.target.name} {self.seed}")
        self._corpus: list[bytes] = list(dict.fromkeys(self.target.corpus))
        self._seen: set[tuple[str, int, int]] = set()

    def run(self, *, inputs: int = sys.maxsize, seconds: float = 3600.0) -> Tally:
        """Until either is used up. Raises Finding."""
        began, peak_kib = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for data in tuple(self._corpus):  # as it is, each must be taken
            self.run_one(data, traced=True)
        while self.tally.inputs < inputs and (self.tally.inputs % 64 or time.monotonic() - began < seconds):
            self.run_one(self._mutated(), traced=self.tally.inputs % TRACED_ONE_IN == 0)
        self.tally.seconds = time.monotonic() - began
        self.tally.rss_grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kib
        self.tally.corpus, self.tally.lines = len(self._corpus), len(self._seen)
        return self.tally

    def run_one(self, data: bytes, *, traced: bool = False) -> None:
        """One input. Raises Finding."""
        self.tally.inputs += 1
        began_ns = time.process_time_ns()
        try:
            if traced:
                self._traced(data)
            else:
                self.target.check(data)
        except self.target.typed:
            self.tally.refused += 1
        except Exception as error:  # whatever it is, it is what is looked for
            raise Finding(self.target.name, data, f"{type(error).__name__}: {error}", self.seed) from error
        spent_ms = (time.process_time_ns() - began_ns) / 1e6
        self.tally.slowest_ms = max(self.tally.slowest_ms, spent_ms)
        if spent_ms > CPU_MS_MAX * (10 if traced else 1):
            raise Finding(self.target.name, data, f"took {spent_ms:.0f} ms of CPU", self.seed)

    def _traced(self, data: bytes) -> None:
        """Run and keep `data` if it reached a step between two of our lines that nothing reached before."""
        fresh = False
        before: dict[types.FrameType, int] = {}

        def line(frame: types.FrameType, event: str, argument: object) -> object:
            nonlocal fresh
            step = frame.f_code.co_filename, before.get(frame, 0), frame.f_lineno
            before[frame] = frame.f_lineno
            if step not in self._seen:
                self._seen.add(step)
                fresh = True
            return line

        def call(frame: types.FrameType, event: str, argument: object) -> object:
            return line(frame, event, argument) if frame.f_code.co_filename.startswith(OURS) else None

        outer = sys.gettrace()
        sys.settrace(call)  # type: ignore[arg-type]
        try:
            self.target.check(data)
        finally:
            sys.settrace(outer)
            if fresh and len(self._corpus) < CORPUS_MAX:
                self._corpus.append(data)

    # ---- mutation ----------------------------------------------------------------------------------------------------

    def _mutated(self) -> bytes:
        data = bytearray(self._draw.choice(self._corpus))
        for _ in range(self._draw.choice((1, 1, 1, 2, 2, 4, 8))):
            self._draw.choice(_MUTATIONS)(self, data)
        return bytes(data[:INPUT_BYTES_MAX])

    def _place(self, data: bytearray) -> int:
        return self._draw.randrange(len(data) + 1)

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._draw.randrange(len(data))] ^= 1 << self._draw.randrange(8)

    def _set(self, data: bytearray) -> None:
        if data:
            data[self._draw.randrange(len(data))] = self._draw.choice(
                (0, 1, 0x7F, 0x80, 0xFF, self._draw.randrange(256))
            )

    def _number(self, data: bytearray) -> None:
        """A number that is a bound of something, in the place of what is there."""
        form = self._draw.choice((">B", ">H", ">I", ">Q", "<I", "<Q"))
        size = struct.calcsize(form)
        value = (self._draw.choice(_NUMBERS) + self._draw.choice((0, 0, -1, 1))) % (1 << 8 * size)
        place = self._place(data)
        data[place : place + size] = struct.pack(form, value)

    def _varint(self, data: bytearray) -> None:
        value, packed = self._draw.choice(_NUMBERS) % 2**64, bytearray()
        while value > 0x7F:
            packed.append(value & 0x7F | 0x80)
            value >>= 7
        packed.append(value)
        place = self._place(data)
        data[place : place + self._draw.randrange(3)] = packed

    def _cut(self, data: bytearray) -> None:
        del data[self._place(data) :]

    def _remove(self, data: bytearray) -> None:
        place = self._place(data)
        del data[place : place + self._draw.choice((1, 2, 4, 8, 32))]

    def _insert(self, data: bytearray) -> None:
        words = self.target.words
        word = self._draw.choice(words) if words and self._draw.random() < 0.6 else self._draw.randbytes(4)
        place = self._place(data)
        data[place:place] = word

    def _repeat(self, data: bytearray) -> None:
        place = self._place(data)
        piece = data[place : place + self._draw.choice((1, 4, 16, 64))]
        data[place:place] = piece * self._draw.choice((1, 2, 16, 200))

    def _splice(self, data: bytearray) -> None:
        other = self._draw.choice(self._corpus)
        data[self._place(data) :] = other[self._draw.randrange(len(other) + 1) :]


_MUTATIONS: tuple[Callable[[Fuzzer, bytearray], None], ...] = (
    Fuzzer._flip,
    Fuzzer._set,
    Fuzzer._number,
    Fuzzer._varint,
    Fuzzer._cut,
    Fuzzer._remove,
    Fuzzer._insert,
    Fuzzer._repeat,
    Fuzzer._splice,
)


def smaller(target: Target, finding: Finding) -> Finding:
    """The same kind of finding from fewer bytes, as far as a few hundred tries find one."""
    fuzzer, kind = Fuzzer(target, finding.seed), finding.reason.split(":")[0]
    step = max(1, len(finding.data) // 2)
    for _ in range(400):
        for start in range(0, len(finding.data), step):
            try:
                fuzzer.run_one(finding.data[:start] + finding.data[start + step :])
            except Finding as found:
                if found.reason.split(":")[0] == kind:
                    finding = found
                    break
        else:
            if step == 1:
                break
            step //= 2
    return finding
