"""BookieClient sends single requests to single bookies, to repair data, copy replicas and audit.

No quorum stands behind these answers: each proves only what `BookieError.answer` says of one bookie.
"""

from bookie.base import errors
from bookie.base.ids import INVALID_ENTRY_ID, LAST_ENTRY, BookieId, EntryId, LedgerId, Life
from bookie.client import arguments
from bookie.client.net.pool import ConnectionPool
from bookie.wire import availability, codes, messages, v3
from bookie.wire.messages import Buffer

# Prefix, header, key and ids of a v3 add, and a little.
_FRAME_OVERHEAD_MAX = 100


class BookieClient:
    """Raw calls. All raise the error that the bookie's answer means, BookieUnavailable, RequestTimedOut, and BadInput
    for an argument that no frame can carry."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    async def add(
        self,
        bookie_id: BookieId,
        ledger_id: LedgerId,
        entry_id: EntryId,
        body: Buffer,
        master_key: bytes,
        *,
        is_recovery: bool = False,
    ) -> None:
        """Store `body`, a sealed entry. Returns once the bookie acknowledged it."""
        request = messages.AddRequest(
            0,
            v3.VERSION,
            arguments.ledger_id(ledger_id),
            arguments.entry_id(entry_id),
            arguments.master_key(master_key, "master_key"),
            self._body(body),
            is_recovery=arguments.flag(is_recovery, "is_recovery"),
        )
        await self._call(bookie_id, request)

    async def read(
        self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId, *, fence_key: bytes | None = None
    ) -> bytes:
        """Return the stored bytes of one entry, unverified (`Digest.open` verifies); -1 is the highest entry.

        With `fence_key`, the ledger's master key, the bookie fences the ledger first.
        """
        request = messages.ReadRequest(
            0,
            v3.VERSION,
            arguments.ledger_id(ledger_id),
            arguments.entry_id(entry_id, low=LAST_ENTRY),
            None if fence_key is None else arguments.master_key(fence_key, "fence_key"),
            is_fencing=fence_key is not None,
        )
        response = await self._call(bookie_id, request)
        assert isinstance(response, messages.ReadResponse)
        if response.body is None:
            raise errors.DigestMismatch(
                f"bookie {bookie_id}: its answer for ledger {ledger_id} entry {entry_id} has no body"
            )
        return bytes(response.body)

    async def fence(self, bookie_id: BookieId, ledger_id: LedgerId, master_key: bytes) -> None:
        """Fence the ledger on this bookie; durable there on return, whether it has entries or not
        (spec/wire.md#W31)."""
        try:
            await self.read(bookie_id, ledger_id, LAST_ENTRY, fence_key=master_key)
        except (errors.NoSuchEntry, errors.NoSuchLedger):
            return

    async def read_lac(self, bookie_id: BookieId, ledger_id: LedgerId) -> tuple[bytes | None, bytes | None]:
        """Return the body of the last explicit LAC and the body of the highest entry, unverified."""
        response = await self._call(bookie_id, messages.ReadLacRequest(0, v3.VERSION, arguments.ledger_id(ledger_id)))
        assert isinstance(response, messages.ReadLacResponse)
        return _owned(response.lac_body), _owned(response.last_entry_body)

    async def write_lac(
        self, bookie_id: BookieId, ledger_id: LedgerId, lac: EntryId, body: bytes, master_key: bytes
    ) -> None:
        """Store an explicit LAC; `body` is `Digest.seal_lac`."""
        request = messages.WriteLacRequest(
            0,
            v3.VERSION,
            arguments.ledger_id(ledger_id),
            arguments.entry_id(lac, "lac", low=INVALID_ENTRY_ID),
            arguments.master_key(master_key, "master_key"),
            self._body(body),
        )
        await self._call(bookie_id, request)

    async def force(self, bookie_id: BookieId, ledger_id: LedgerId) -> None:
        """Have the bookie put on disk all entries of the ledger that it acknowledged."""
        await self._call(bookie_id, messages.ForceRequest(0, v3.VERSION, arguments.ledger_id(ledger_id)))

    async def list_groups(self, bookie_id: BookieId, ledger_id: LedgerId) -> list[tuple[int, int, int, int]]:
        """Return the entries that the bookie holds, in groups as sent: (first start, last start, size, period), period
        0 for a single run. Raises RequestTimedOut for a Java bookie on DbLedgerStorage, which never answers
        (spec/wire.md#W15)."""
        request = messages.ListEntriesRequest(0, v3.VERSION, arguments.ledger_id(ledger_id))
        response = await self._call(bookie_id, request)
        assert isinstance(response, messages.ListEntriesResponse)
        return availability.decode_groups(response.availability or b"")

    async def info(self, bookie_id: BookieId) -> tuple[int, int]:
        """Return the total and the free bytes of the bookie's ledger disks."""
        wanted = codes.INFO_TOTAL_DISK_CAPACITY | codes.INFO_FREE_DISK_SPACE
        response = await self._call(bookie_id, messages.BookieInfoRequest(0, v3.VERSION, wanted))
        assert isinstance(response, messages.BookieInfoResponse)
        return response.total_bytes or 0, response.free_bytes or 0

    async def life(self, bookie_id: BookieId) -> Life | None:
        """Return the life of the bookie that answers; None: the bookie does not say (Java's do not)."""
        response = await self._call(bookie_id, messages.BookieInfoRequest(0, v3.VERSION, codes.INFO_LIFE))
        assert isinstance(response, messages.BookieInfoResponse)
        return response.life

    def _body(self, body: Buffer) -> bytes:
        """Return `body` as bytes. Raises BadInput when no frame holds it: a bookie would break the connection, which
        all ledgers share."""
        found, limit = arguments.payload(body, "body"), self._pool.options.frame_limit_bytes - _FRAME_OVERHEAD_MAX
        if len(found) > limit:
            raise errors.BadInput(f"body has {len(found)} bytes; at most {limit} fit a frame (frame_limit_bytes)")
        return found

    async def _call(self, bookie_id: BookieId, request: messages.Request) -> messages.Response:
        return await self._pool.ask(arguments.bookie_id(bookie_id), request)


def _owned(body: Buffer | None) -> bytes | None:
    return None if body is None else bytes(body)
