"""What a repair asks of a ledger is asked with the password of its record, disturbs no writer unless it is a recovery,
and is let go of."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bookie.base.ids import LedgerId
from bookie.client.client import Client
from bookie.integrity.opener import ClientOpener

L = LedgerId(7)


class Asked:
    """A client that writes down what it is asked for."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def _close(self) -> None:
        self.log.append("closed")

    def _reader(self, what: str, administrative: bool) -> Any:
        self.log.append(what if administrative else f"{what} without the password")
        return SimpleNamespace(last_confirmed=4, close=self._close)

    async def open(self, ledger_id: LedgerId, *, administrative: bool = False) -> Any:
        return self._reader(f"open {ledger_id}", administrative)

    async def open_no_recovery(self, ledger_id: LedgerId, *, administrative: bool = False) -> Any:
        return self._reader(f"look into {ledger_id}", administrative)


@pytest.mark.parametrize("what", ["recover", "last_confirmed"])
def test_a_recovery_opens_the_ledger_and_a_look_does_not(what: str) -> None:
    asked = Asked()
    opener = ClientOpener(cast(Client, asked))

    answer = asyncio.run(getattr(opener, what)(L))

    assert answer == (None if what == "recover" else 4)
    assert asked.log == ["open 7" if what == "recover" else "look into 7", "closed"]
