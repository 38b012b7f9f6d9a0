"""The loop of a process: what reaches it uncaught, and how signals arrive."""

import asyncio
import os
import signal

from bookie.runtime import loop


def test_a_programming_error_in_a_callback_is_handed_over() -> None:
    async def main() -> list[BaseException]:
        found: list[BaseException] = []
        seen = asyncio.Event()

        def fail(error: BaseException) -> None:
            found.append(error)
            seen.set()

        def wrong() -> None:
            raise AssertionError("ours")

        def unlucky() -> None:
            raise OSError("too many open files")

        def cancelled() -> None:
            raise asyncio.CancelledError  # as streams of Python 3.11.7 and 3.12.1 do at the end of a loop

        loop.on_uncaught(fail)
        asyncio.get_running_loop().call_soon(unlucky)
        asyncio.get_running_loop().call_soon(cancelled)
        asyncio.get_running_loop().call_soon(wrong)
        await seen.wait()
        return found

    found = loop.run(main())

    assert [str(error) for error in found] == ["ours"]


def test_sigterm_asks_once_and_the_second_signal_is_not_caught() -> None:
    async def main() -> object:
        asked = asyncio.Event()
        loop.on_stop_signals(asked.set)
        os.kill(os.getpid(), signal.SIGTERM)
        await asked.wait()
        return signal.getsignal(signal.SIGTERM)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert loop.run(main()) is signal.SIG_DFL
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
