"""Lets other tasks run in the middle of long work."""

import asyncio


async def pause() -> None:
    """Let every task that is ready run once."""
    turn = asyncio.Event()  # a bare future would not do: to set one that a stop has cancelled is an error
    asyncio.get_running_loop().call_soon(turn.set)
    await turn.wait()
