"""What a burst left behind is given back when it has passed, and not before."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from bookie.base.units import KIB, MIB
from bookie.runtime import memory
from bookie.runtime.memory import Tide


def test_memory_is_given_back_once_after_each_burst_and_never_while_work_goes_on() -> None:
    tide, told = Tide(10.0), []
    busy, quiet = memory.LOOK_S, memory.LOOK_S * memory.IDLE_SHARE / 2
    cpu_s = 10.0
    for used_s in (quiet, quiet, busy, busy, busy, quiet, quiet, quiet, busy, busy, quiet, quiet):
        cpu_s += used_s
        told.append(tide.has_ebbed(cpu_s))

    assert [number for number, ebbed in enumerate(told) if ebbed] == [5, 10]


def test_an_idle_process_that_never_worked_has_nothing_to_give_back() -> None:
    tide = Tide(10.0)
    step = memory.BURST_S / 100
    assert not any(tide.has_ebbed(10.0 + number * step) for number in range(1, 50))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_holes_between_what_lives_go_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    if memory._giver() is None:
        pytest.skip("another C library")
    monkeypatch.setattr(memory, "LOOK_S", 0.01)
    monkeypatch.setattr(memory, "BURST_S", 0.0)
    monkeypatch.setattr(memory, "IDLE_SHARE", 10.0)  # whatever else this process does
    pieces = [bytes(8 * KIB) for _ in range(64 * MIB // (8 * KIB))]
    kept = pieces[:: 64 * KIB // (8 * KIB)]  # the end of the heap lives, so freeing alone returns nothing
    full = resident_bytes()
    del pieces

    async def story() -> None:
        async with memory.returned_when_idle():
            deadline = time.monotonic() + 30
            while resident_bytes() > full - 32 * MIB:
                assert time.monotonic() < deadline, f"{resident_bytes()} of {full} bytes are still resident"
                await asyncio.sleep(0)

    asyncio.run(story())
    assert len(kept) > 1000


@pytest.mark.parametrize(
    ("text", "limit"), [("2147483648\n", 1 << 31), ("max\n", None), ("9223372036854771712\n", None), ("", None)]
)
def test_a_container_s_limit_is_what_the_kernel_says(text: str, limit: int | None, tmp_path: Path) -> None:
    told = tmp_path / "memory.max"
    told.write_text(text)

    assert memory.limit_bytes([str(tmp_path / "nobody"), str(told)]) == limit
