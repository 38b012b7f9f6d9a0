"""One bookie of three answers wrongly, in every way that an answer can be wrong: nobody is told a wrong thing, nothing
that was acknowledged is lost, nothing waits for ever, and no error is but one that callers know."""

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import pytest

from bookie.base.errors import Answer, BookieError, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.client import Client
from bookie.metadata.ledger import LedgerState
from bookie.wire import messages
from bookie.wire.digest import DigestType
from bookie.wire.messages import Response
from client_support import FakeBookie, Fleet, tell

COUNT = 12
DIGESTS = (DigestType.CRC32C, DigestType.HMAC, DigestType.CRC32)  # DUMMY finds nothing


class Liar:
    """Changes the answers of one model bookie."""

    def __init__(self, bookie: FakeBookie, random_: random.Random) -> None:
        self.bookie = bookie
        self.random = random_
        self.told: list[str] = []

    def answers(self, response: Response) -> list[Response]:
        """What it sends in the place of one answer."""
        if self.random.random() < 0.4:
            return [response]
        way = self.random.choice(("twice", "nothing", "status", "ids", "body", "txn", "kind"))
        self.told.append(f"{way} for {response}")
        match way:
            case "twice":
                return [response, response]
            case "nothing":
                return []
            case "status":
                return [dataclasses.replace(response, status=self.random.choice(list(Status)))]
            case "txn":
                return [dataclasses.replace(response, txn=self.random.choice((0, 2**63 - 1, response.txn + 1)))]
            case "kind":
                return [messages.ForceResponse(response.txn, 3, response.status, LedgerId(0))]
            case "ids":
                return [self._with_other_ids(response)]
            case _:
                return [self._with_another_body(response)]

    def _with_other_ids(self, response: Any) -> Response:
        other = self.random.choice((0, 1, 2**31, 2**63 - 1))
        name = self.random.choice(("ledger_id", "entry_id"))
        return dataclasses.replace(response, **{name: other}) if hasattr(response, name) else response

    def _with_another_body(self, response: Any) -> Response:
        """Another entry's, a part of it, none, or rot; also where it has none."""
        bodies = list(self.bookie.entries.values())
        wrong: list[bytes | None] = [None, b"", b"x" * 100]
        wrong += [self.random.choice(bodies), self.random.choice(bodies)[:-3]] if bodies else []
        chosen = self.random.choice(wrong)
        match response:
            case messages.ReadResponse():
                return dataclasses.replace(response, status=Status.EOK, body=chosen)
            case messages.ReadLacResponse():
                return dataclasses.replace(response, status=Status.EOK, lac_body=chosen, last_entry_body=chosen)
            case messages.BatchReadResponse():
                return dataclasses.replace(response, bodies=(chosen or b"", *response.bodies))
            case messages.ListEntriesResponse():
                return dataclasses.replace(response, body=chosen)
        return response


async def told_the_truth(fleet: Fleet, liar: Liar, digest: DigestType) -> None:
    version = liar.random.choice((2, 3))
    async with (
        fleet.client("writer", protocol_version=version) as writing,
        fleet.client(batch_reads=True, protocol_version=version) as client,
    ):
        acknowledged: dict[int, bytes] = {}
        writer = await writing.create(digest_type=digest, password=b"secret")
        for number in range(COUNT):
            payload = b"%d" % number * liar.random.choice((0, 1, 50))
            with contextlib.suppress(BookieError):
                acknowledged[await writer.append(payload)] = payload
        if liar.random.random() < 0.5:
            with contextlib.suppress(BookieError):
                await writer.close()
        await read_back(client, writer.id, acknowledged)
        liar.bookie.lies = None
        await read_back(client, writer.id, acknowledged, is_last=True)


@contextlib.contextmanager
def told(*, is_last: bool) -> Iterator[None]:
    """What a caller may be told: while one bookie lies, that not enough is known, and never that something is not
    there."""
    try:
        yield
    except BookieError as error:
        if is_last or error.answer is Answer.NEGATIVE:
            raise


async def read_back(
    client: Client, ledger_id: LedgerId, acknowledged: dict[int, bytes], *, is_last: bool = False
) -> None:
    with told(is_last=is_last):
        async with await client.open_no_recovery(ledger_id, b"secret") as reader:
            assert reader.last_confirmed < COUNT
    with told(is_last=is_last):
        async with await client.open(ledger_id, b"secret") as reader:
            assert reader.last_entry >= max(acknowledged, default=-1)
            found = await reader.read(EntryId(0), reader.last_entry) if reader.last_entry >= 0 else []
            assert {**{it.entry_id: bytes(it.payload) for it in found}, **acknowledged} == {
                it.entry_id: bytes(it.payload) for it in found
            }
    metadata = await client.metadata(ledger_id)
    assert metadata.state is not LedgerState.CLOSED or metadata.last_entry >= max(acknowledged, default=-1)


@pytest.mark.parametrize("seed", range(40))
def test_a_bookie_that_answers_wrongly_makes_nobody_believe_a_wrong_thing(seed: int) -> None:
    draws = random.Random(f"broken {seed}")

    async def story(fleet: Fleet) -> None:
        liar = Liar(fleet["b0"], draws)
        liar.bookie.lies = liar.answers
        async with asyncio.timeout(600):
            await told_the_truth(fleet, liar, draws.choice(DIGESTS))
        assert liar.told or len(fleet.bookies) > 3

    tell(story, zones="abcd" if seed % 2 else "abc", seed=seed)
