"""A user's program that ends in order says nothing: no warning of Python's, no task or socket left behind."""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import local_support
from local_support import LocalFleet

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
# asyncio's word, in development mode, of a step of the loop that took longer than 0.1 s: the machine was busy.
SLOW_STEP = re.compile(r"Executing .* took \d+\.\d+ seconds")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with local_support.fleet(folder / "data", folder / "log", bookies=3) as running:
        yield running


PROGRAMS = {
    "async": """
        import asyncio
        from bookie.base import errors
        from bookie.connect import connect

        async def main(uri):
            async with connect(uri) as client:
                async with await client.create(password=b"secret") as writer:
                    await writer.append(b"hello")
                    await writer.append_many([b"many", b"at", b"once"])
                async with await client.open(writer.id, b"secret") as reader:
                    async for entry in reader.read_stream(0, reader.last_entry):
                        break  # half-way
                async with await client.create() as empty:
                    try:
                        await empty.append("text")
                    except errors.BadInput:
                        pass
                async with await client.open(empty.id) as reader:
                    assert [entry async for entry in reader.read_stream(0, reader.last_entry)] == []
                given_up = await client.create()
                await given_up.append(b"and never closed")
                growing = await client.open_no_recovery(given_up.id)
                waiting = asyncio.create_task(anext(growing.tail(1_000)))
                await asyncio.sleep(0)
                waiting.cancel()

        asyncio.run(main(uri))
    """,
    "blocking": """
        from bookie import blocking
        from bookie.base import errors

        with blocking.connect(uri) as client:
            with client.create() as writer:
                writer.append(b"hello")
                writer.append_many(b"%d" % n for n in range(1_000))
            with client.open(writer.id) as reader:
                for entry in reader.read_stream(0, reader.last_entry):
                    break  # half-way
                tailing = reader.tail()
                next(tailing)
                assert len(list(client.ledgers())) >= 1
            for batch in client.open(writer.id).read_batches(0, 999):
                break
            left_open = client.create()
            try:
                left_open.append("text")
            except errors.BadInput:
                pass
            assert left_open.append(memoryview(b"abcdef")[::2]) == 0
        try:
            client.create()
        except errors.ClientClosed as error:
            assert not error.retryable
    """,
    "blocking, wrong from the start": """
        from bookie import blocking
        from bookie.base import errors

        for options in ({"request_timeout_ms": 0}, {"sasl_password": "text"}, {"rack_mapping_path": 7}):
            try:
                blocking.connect(uri, **options).__enter__()
            except errors.BadInput as error:
                assert next(iter(options)) in str(error)
            else:
                raise AssertionError(options)
        client = blocking.open_client(uri)
        client.close()
        client.close()
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_ends_in_order_says_nothing(fleet: LocalFleet, name: str) -> None:
    program = f"uri = {fleet.uri!r}\n" + textwrap.dedent(PROGRAMS[name])

    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )

    said = [line for line in done.stderr.splitlines() if not SLOW_STEP.fullmatch(line)]
    assert (done.returncode, done.stdout, said) == (0, "", [])
