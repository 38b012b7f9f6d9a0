"""What a repair asks of a client about whole ledgers: phase two and the filling of holes."""

from typing import Protocol

from bookie.base.ids import EntryId, LedgerId
from bookie.client.client import Client


class Opener(Protocol):
    """The client operations on whole ledgers that a repair needs."""

    async def recover(self, ledger_id: LedgerId) -> None:
        """Recover the ledger; return when it is closed. Raises BookieError."""
        ...

    async def last_confirmed(self, ledger_id: LedgerId) -> EntryId:
        """Return the LAC of the ledger without disturbing its writer. Raises BookieError."""
        ...


class ClientOpener:
    """Implements `Opener` by the client library, with the password from the metadata."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def recover(self, ledger_id: LedgerId) -> None:
        reader = await self._client.open(ledger_id, administrative=True)
        await reader.close()

    async def last_confirmed(self, ledger_id: LedgerId) -> EntryId:
        reader = await self._client.open_no_recovery(ledger_id, administrative=True)
        try:
            return reader.last_confirmed
        finally:
            await reader.close()
