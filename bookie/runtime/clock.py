"""The real clock."""

import asyncio
import time

from bookie.base.units import NS_PER_MS, NS_PER_S


class SystemClock:
    """`ports.clock.Clock` on the operating system's."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        return time.time_ns() // NS_PER_MS

    async def sleep_until(self, deadline_ns: int) -> None:
        delay_ns = deadline_ns - time.monotonic_ns()
        if delay_ns > 0:
            await asyncio.sleep(delay_ns / NS_PER_S)
