"""The node in the metadata store that marks one process as this bookie:
while it exists, no other process can take over.

An ephemeral node, one for each bookie id, held from before serving until the end. It is made only in a transaction that

    also writes the incarnation record (a claim: it fails while another holds the sign or is registered), or
    also finds the record at the version at which its maker last knew it as its own (a session that was lost).

So the record at that version and the sign together prove that the sign is ours: `check` beside a check or a change of
the record makes anything depend on it. A process of a version without signs, and Java's bookie, are known by their
registration alone: hence `nobody_registered`. Must never take the sign of a process that may be alive.
"""

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.metadata import paths
from bookie.ports.metadata_store import ANY_VERSION, CheckOp, CreateOp, MetadataStore, Op, Stored, absent, find

SETTLE_MS = 100  # between looks at a change whose answer was lost, or at what is in the way


class IdHolder:
    """The node of one bookie id, as one process uses it."""

    def __init__(
        self, store: MetadataStore, root: str, bookie_id: BookieId, retry: MetadataRetry, *, boot_id: str
    ) -> None:
        self.path = paths.process(root, bookie_id)
        self.check = CheckOp(self.path, ANY_VERSION)
        self._store = store
        self._retry = retry
        self._sign = boot_id.encode()
        self._registrations = (f"{paths.available(root)}/{bookie_id}", f"{paths.readonly(root)}/{bookie_id}")

    @property
    def nobody_registered(self) -> tuple[Op, ...]:
        """Return operations by which a transaction fails with NodeExists if a process is registered under this id."""
        return tuple(op for path in self._registrations for op in absent(path))

    async def taking(self) -> tuple[Op, ...]:
        """Return the operations of a claim: they make our node, or check the one that our earlier claim made."""
        found = await self._get(self.path)
        is_ours = found is not None and (found.data, found.owner) == (self._sign, self._store.session_id)
        sign = self.check if is_ours else CreateOp(self.path, self._sign, ephemeral=True)
        return *self.nobody_registered, sign

    async def in_the_way(self) -> str:
        """Say, for people, which other process is alive under this id; "" when there is none."""
        for path in (self.path, *self._registrations):
            found = await self._get(path)
            if found is not None and found.owner != self._store.session_id and found.data != self._sign:
                if not found.owner:
                    return f"its node {path} exists, and belongs to no session, so no living process made it: delete it"
                return f"its node {path} exists (session {found.owner:#x})"
        return ""

    async def take_back(self, provided: CheckOp) -> bool:
        """Make the node again if it ended with a session of ours. `provided`: the record as we know it.

        False: another process holds it, or the record was changed. Waits for the metadata store as long as it takes.
        """
        while True:
            found = await self._get(self.path)
            if found is None:
                try:
                    await self._store.transact((provided, CreateOp(self.path, self._sign, ephemeral=True)))
                except errors.VersionConflict:
                    return False
                except errors.MetadataError as error:
                    if not error.retryable and not isinstance(error, errors.NodeExists | errors.NodeMissing):
                        raise
                    if isinstance(error, errors.NodeMissing) and await self._get(provided.path) is None:
                        return False
                    await self._retry.pause(SETTLE_MS)
            elif found.data != self._sign:
                return False
            elif found.owner == self._store.session_id:
                return True
            else:  # of a session of ours that is over and has not ended yet
                await self._retry.pause(SETTLE_MS)

    async def is_another(self) -> bool:
        """Return True when another process holds the node."""
        found = await self._get(self.path)
        return found is not None and found.data != self._sign

    async def let_go(self) -> None:
        """Remove the node if it is ours, as this process will not be the bookie now. Waits for the metadata store as
        long as it takes: our session may last as long as this process waits, and nobody else could be the bookie."""
        while True:
            found = await self._get(self.path)
            if found is None or found.data != self._sign:
                return
            # A sign that another makes just now, as our session ends, has the same version and would go; it is made
            # again, and meanwhile its owner is safe by the record, which each claim writes.
            try:
                await self._store.delete(self.path)
            except errors.MetadataError as error:
                if not error.retryable:  # it is gone, or not ours to delete
                    return
                await self._retry.pause(SETTLE_MS)

    async def _get(self, path: str) -> Stored | None:
        return await self._retry.read(lambda: find(self._store, path))
