"""Giving the loop back in the middle of long work."""

import asyncio


async def pause() -> None:
    """Let everything that is ready run once."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn
