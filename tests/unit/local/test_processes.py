"""The processes of `bookie local`, and that none outlives it."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from bookie.local import processes

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


def test_a_start_that_is_cancelled_kills_a_process_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Python 3.11.2 it went on: what was to tell that it took too long told of the cancellation once more."""
    monkeypatch.setattr(processes, "_STOP_TIMEOUT_S", 0.05)
    log = tmp_path / "deaf.log"

    async def main() -> None:
        child = await processes.start("deaf", [sys.executable, "-c", DEAF], log)

        async def start() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await child.stop()

        deadline_s = time.monotonic() + 30
        while "up" not in (said := log.read_text(encoding="utf-8")):
            assert time.monotonic() < deadline_s, f"the child did not say that it is up in 30 s, but {said!r}"
            await asyncio.to_thread(time.sleep, 0.01)
        starting = asyncio.get_running_loop().create_task(start())
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        has_ended = child._process.returncode is not None
        if not has_ended:
            child._process.kill()
            await child._process.wait()
        assert has_ended

    asyncio.run(main())
