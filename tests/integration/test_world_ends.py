"""A world that ends leaves no connection behind, whatever state it is in.

In a process of its own: where warnings are errors, uvloop waits for ever for a connection that nobody closed.
"""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import socket, sys
from bookie.base.units import NS_PER_S
from bookie.ports.network import Address
from bookie.runtime import loop
from bookie.runtime.world import open_world

server = socket.create_server(("127.0.0.1", 0))  # says nothing, takes nothing, and stays

async def main(how):
    async with open_world() as world:
        soon_ns = world.clock.monotonic_ns() + 5 * NS_PER_S
        stream = await world.network.dial(Address("127.0.0.1", server.getsockname()[1]), soon_ns)
        if how != "open":
            stream.write([bytes(50_000_000)])
        if how == "closed and lingering":
            stream.close()
    print("ended")

loop.run(main(sys.argv[1]))
server.close()
"""


@pytest.mark.parametrize("how", ["open", "with bytes on their way", "closed and lingering"])
def test_a_world_ends_with_its_connections(tmp_path: Path, how: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, "-W", "error", str(program), how], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
