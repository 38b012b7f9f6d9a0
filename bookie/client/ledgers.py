"""Stores, reads, lists and deletes ledger metadata, and draws ledger ids.

The store may lose an answer (OutcomeUnknown). After a lost answer to `create` or `put`, this module reads the node and
compares it, so that the caller sees success or a true conflict. Never: a blind repetition of a write, and never "no
such ledger" for a store that could not be read. Rules: spec/metadata.md#M7, M8, M15.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence

from bookie.base import errors, ids
from bookie.base.ids import LEDGER_ID_MAX, LedgerId
from bookie.client import arguments
from bookie.metadata import paths, serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.metadata.paths import LayoutKind
from bookie.ports.metadata_store import (
    ANY_VERSION,
    CheckOp,
    MetadataStore,
    PutOp,
    Stored,
    create_if_missing,
    find,
    find_children,
)

LEGACY_ID_END = 10**10  # ten digits
_CREATE_ATTEMPTS = 20
_PUT_ATTEMPTS = 5
_HOB_KEPT = 3
_HOB_MAX = LEDGER_ID_MAX >> 32


async def in_batches(ledger_ids: AsyncIterable[LedgerId], size: int) -> AsyncGenerator[list[LedgerId], None]:
    """Yield the ids in their order, `size` at a time, the last ones with fewer; no empty batch.

    A metadata store answers thousands of reads a second, but only to a client that overlaps them: so whoever looks at
    many records asks for those of one batch together.
    """
    batch: list[LedgerId] = []
    async for ledger_id in ledger_ids:
        batch.append(ledger_id)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def listed(store: MetadataStore, path: str, left_out: list[str] | None) -> list[str]:
    """Return the names below `path`, as `find_children`. One branch of a tree that may not be listed is told to
    `left_out`, so that its caller sees the others; without such a list it raises MetadataDenied."""
    try:
        return await find_children(store, path)
    except errors.MetadataDenied as error:
        if left_out is None:
            raise
        left_out.append(str(error))
        return []


def told_as_defect(error: Exception) -> str:
    """Return an error of ours that came up at one ledger in words, for whoever goes on with the others."""
    return f"a defect of this program: {type(error).__name__}: {error}"


class LedgerStore:
    """The ledgers under one root. Holds no state but the layout, so any number of these may share one store."""

    def __init__(self, store: MetadataStore, root: str, kind: LayoutKind = LayoutKind.HIERARCHICAL) -> None:
        self.store = store
        self.root = root
        self.kind = kind

    def path(self, ledger_id: LedgerId) -> str:
        """Return the path of the ledger's record. Raises BadInput for a bad ledger id: every call passes here."""
        return paths.ledger_path(self.root, arguments.ledger_id(ledger_id), self.kind)

    async def create(self, metadata: LedgerMetadata, ledger_id: LedgerId | None = None) -> LedgerId:
        """Store a new ledger under `ledger_id`, or under a fresh id; its version is 0. `metadata.ctoken` should be
        random and not 0.

        After a lost answer, the token tells our own node from a stranger's (spec/metadata.md#M14).
        Raises LedgerExists when `ledger_id` is taken, BadInput when this cluster's layout has no place for it.
        """
        data = serde.dump_ledger(metadata)
        if ledger_id is not None:
            if not 0 <= ledger_id < (LEGACY_ID_END if self.kind is LayoutKind.LEGACY else LEDGER_ID_MAX + 1):
                raise errors.BadInput(f"ledger id {ledger_id} has no place in this cluster's {self.kind.value} layout")
            await self.create_at(ledger_id, data, metadata.ctoken)
            return ledger_id
        for _ in range(_CREATE_ATTEMPTS):
            ledger_id = await self.next_id()
            try:
                await self.create_at(ledger_id, data, metadata.ctoken)
            except errors.LedgerExists:
                continue
            return ledger_id
        raise errors.MetadataError(f"no free ledger id was found in {_CREATE_ATTEMPTS} attempts")

    async def create_at(self, ledger_id: LedgerId, data: bytes, ctoken: int) -> None:
        """Store `data` for `ledger_id`. Raises LedgerExists when another client made the ledger."""
        path = self.path(ledger_id)
        for _ in range(_CREATE_ATTEMPTS):
            try:
                await self.store.create(path, data, parents=True)
            except (errors.NodeExists, errors.OutcomeUnknown):
                try:
                    stored, _ = await self.get(ledger_id)
                except errors.LedgerMissing:
                    continue  # the lost create did not happen, or the ledger is gone again
                if ctoken == 0 or stored.ctoken != ctoken:
                    raise errors.LedgerExists(f"ledger {ledger_id} exists already") from None
            return
        raise errors.OutcomeUnknown(
            f"creating ledger {ledger_id}: the metadata store gave no answer: look, then try again"
        )

    async def get(self, ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
        """Return the metadata and its version. Raises LedgerMissing, BadInput (unreadable), MetadataError."""
        found = await self.stored(ledger_id)
        return serde.load_ledger(found.data, found.created_ms), found.version

    async def get_again(self, ledger_id: LedgerId, known: LedgerMetadata) -> tuple[LedgerMetadata, int]:
        """As `get`, for who had the record `known`. Raises LedgerMissing also when another ledger has the id now: what
        was found of the first one must not be written into it."""
        metadata, version = await self.get(ledger_id)
        if known.was_replaced_by(metadata):
            raise errors.LedgerMissing(f"ledger {ledger_id} was deleted, and another one made anew under its id")
        return metadata, version

    async def put(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int, *, provided: Sequence[CheckOp] = ()
    ) -> int:
        """Compare and set; return the new version. Raises VersionConflict, LedgerMissing, MetadataError.

        `provided`: more checks on other nodes, in the same transaction. One that fails is a VersionConflict too.
        """
        return await self._put_data(ledger_id, serde.dump_ledger(metadata), version, provided)

    async def put_back(self, ledger_id: LedgerId, data: bytes, version: int | None) -> None:
        """Store a record that was saved: in place of the one of `version`, or None: where there is none.

        Raises LedgerExists, VersionConflict or LedgerMissing when another record stands there, MetadataError.
        """
        if version is not None:
            await self._put_data(ledger_id, data, version)
            return
        try:
            await self.create_at(ledger_id, data, 0)
        except errors.LedgerExists as error:
            # After a lost answer it may be our own; its token is that of who made the ledger, and tells us nothing.
            if (await self.stored(ledger_id)).data != data:
                raise errors.LedgerExists(
                    f"ledger {ledger_id} got another record meanwhile, so nothing was restored: look at it (`bookie"
                    f" metadata show {ledger_id}`), then begin again"
                ) from error

    async def _put_data(self, ledger_id: LedgerId, data: bytes, version: int, provided: Sequence[CheckOp] = ()) -> int:
        path = self.path(ledger_id)
        was_lost = False
        for _ in range(_PUT_ATTEMPTS):
            try:
                if not provided:
                    return await self.store.put(path, data, version)
                await self.store.transact([*provided, PutOp(path, data, version)])
                return version + 1
            except errors.NodeMissing:
                await self.stored(ledger_id)
                raise errors.VersionConflict(
                    f"ledger {ledger_id}: a record that its change depends on is gone"
                ) from None
            except errors.OutcomeUnknown:
                was_lost = True
            except errors.VersionConflict:
                if not was_lost:
                    raise
            # After a lost answer: the write happened exactly when our bytes stand at the next version.
            await self.store.sync(path)
            found = await self.stored(ledger_id)
            if found.version == version + 1 and found.data == data:
                return found.version
            if found.version != version:
                raise errors.VersionConflict(f"ledger {ledger_id} is at version {found.version}, not {version}")
        raise errors.OutcomeUnknown(
            f"writing ledger {ledger_id}: the metadata store gave no answer: look, then try again"
        )

    async def delete(self, ledger_id: LedgerId) -> None:
        """Remove the ledger; does nothing if it is gone. Removes empty parents as Java does, best effort."""
        path = self.path(ledger_id)
        try:
            await self.store.delete(path, ANY_VERSION)
        except errors.NodeMissing:
            return
        if self.kind not in (LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL):
            return
        parent = path.rsplit("/", 1)[0]
        while parent != self.root:
            try:
                await self.store.delete(parent, ANY_VERSION)
            except errors.MetadataError:
                return  # not empty, or another client removes it now
            parent = parent.rsplit("/", 1)[0]

    async def iterate(self, left_out: list[str] | None = None) -> AsyncIterator[LedgerId]:
        """Yield all ledger ids, ascending: each that was made before this call and is there still; of those made or
        deleted meanwhile some.

        A branch that vanished is empty. Any other failure raises MetadataError: taken for "no ledgers", it would let
        bookies delete. `left_out` gets why a branch may not be listed, for who goes on with the others and says so.
        """
        await self.store.sync(self.root)  # a server of the store that lags has not heard of the newest ones yet
        names = await self._root_names()
        if self.kind is LayoutKind.FLAT:
            for ledger_id in _flat_ids(names):
                yield ledger_id
            return
        # Two-digit branches hold the smaller ids, so they come first.
        for name in sorted(names, key=lambda name: (len(name), name)):
            if depth := paths.tree_depth(self.kind, name):
                async for ledger_id in self._walk(f"{self.root}/{name}", depth - 1, left_out):
                    yield ledger_id

    async def iterate_down(self) -> AsyncGenerator[LedgerId, None]:
        """Yield all ledger ids, descending, as `iterate` does ascending; none that stands where no client looks for its
        record (`path`). A caller that leaves early must close it (`contextlib.aclosing`)."""
        for branches in await self._trees_down():
            async for ledger_id, path in self._walk_down(branches):
                if path == self.path(ledger_id):
                    yield ledger_id

    async def bound(self) -> int:
        """Return one more than the greatest id of a ledger in any tree of this layout; 0 when there is no ledger.

        A ledger that was made before this call, and is not deleted meanwhile, is below the bound: each listing on the
        way down names the branch that holds it, and a branch is left only when nothing is in it. Raises MetadataError
        when a listing breaks off: then there is no bound.
        """
        greatest = -1
        for branches in await self._trees_down():
            async with contextlib.aclosing(self._walk_down(branches)) as found:
                async for ledger_id, _ in found:
                    greatest = max(greatest, ledger_id)
                    break
        return greatest + 1

    async def next_id(self) -> LedgerId:
        """Return a ledger id that nobody was given before. A lost answer wastes one. Rule: ZkLedgerIdGenerator."""
        if not await self._uses_long_ids():
            base = self.root if self.kind is LayoutKind.FLAT else paths.idgen(self.root)
            counter = await self._count(f"{base}/ID-")
            if counter < paths.SHORT_ID_END:
                return LedgerId(counter)
            await create_if_missing(self.store, paths.idgen_long(self.root), parents=True)
        return await self._next_long_id()

    async def stored(self, ledger_id: LedgerId) -> Stored:
        """Return the record as it stands, readable or not; perhaps an older one, and never "none" for a ledger that was
        made before this call. Raises LedgerMissing, MetadataError."""
        path = self.path(ledger_id)
        found = await find(self.store, path)
        if found is None:
            # Nobody is told "no such ledger" by a server of the store that has not heard of it yet.
            await self.store.sync(path)
            found = await find(self.store, path)
        if found is None:
            raise errors.LedgerMissing(f"ledger {ledger_id} does not exist")
        return found

    async def _root_names(self) -> list[str]:
        try:
            return await self.store.children(self.root)
        except errors.NodeMissing:
            raise errors.MetadataError(
                f"{self.root} does not exist in the metadata store: is the metadata service URI right?"
            ) from None

    async def _trees_down(self) -> list[list[tuple[str, int]]]:
        """Return the trees that hold ledgers, that of the greater ids first; of each its branches, descending, with
        their levels of directories."""
        names = await self._root_names()
        if self.kind is LayoutKind.FLAT:
            return [[(self.path(ledger_id), 0) for ledger_id in reversed(_flat_ids(names))]]
        trees: dict[int, list[tuple[str, int]]] = {}
        for name in sorted(names, key=lambda name: (len(name), name), reverse=True):
            if depth := paths.tree_depth(self.kind, name):
                trees.setdefault(depth, []).append((f"{self.root}/{name}", depth))
        return list(trees.values())

    async def _walk_down(self, branches: Sequence[tuple[str, int]]) -> AsyncGenerator[tuple[LedgerId, str], None]:
        """Yield the ledgers below `branches`, descending, with their paths."""
        for path, levels in branches:
            if levels == 0:
                if (ledger_id := self._ledger_at(path)) is not None:
                    yield ledger_id, path
                continue
            names = sorted(await find_children(self.store, path), reverse=True)
            async for found in self._walk_down([(f"{path}/{name}", levels - 1) for name in names]):
                yield found

    async def _walk(self, path: str, levels: int, left_out: list[str] | None) -> AsyncIterator[LedgerId]:
        for name in await listed(self.store, path, left_out):
            if levels > 0:
                async for ledger_id in self._walk(f"{path}/{name}", levels - 1, left_out):
                    yield ledger_id
            elif (found := self._ledger_at(f"{path}/{name}")) is not None:
                yield found

    def _ledger_at(self, path: str) -> LedgerId | None:
        """Return the ledger whose record is at `path`; None when no id has this path: no client ever looks there."""
        try:
            return paths.parse_ledger_path(self.root, path)
        except errors.BadInput:
            return None

    async def _uses_long_ids(self) -> bool:
        if self.kind not in (LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL):
            return False
        return await find(self.store, paths.idgen_long(self.root)) is not None

    async def _next_long_id(self) -> LedgerId:
        """Return high << 32 | counter, where `high` is the greatest HOB node (LongZkLedgerIdGenerator)."""
        base = paths.idgen_long(self.root)
        for _ in range(_CREATE_ATTEMPTS):
            names = [name for name in await self.store.children(base) if _is_high_half(name)]
            high = max((int(name[4:]) for name in names), default=0)
            if high:
                counter = await self._count(f"{base}/HOB-{high:010d}/ID-")
                if counter < paths.SHORT_ID_END:
                    return LedgerId(high << 32 | counter)
            await create_if_missing(self.store, f"{base}/HOB-{high + 1:010d}", parents=True)
            for old in sorted(names)[: -(_HOB_KEPT - 1)]:
                with contextlib.suppress(errors.MetadataError):  # housekeeping only
                    await self.store.delete(f"{base}/{old}", 0)
        raise errors.MetadataError("no ledger id could be made: the long id generator keeps overflowing")

    async def _count(self, prefix: str) -> int:
        for _ in range(_CREATE_ATTEMPTS):
            try:
                path = await self.store.create(prefix, b"", ephemeral=True, sequential=True, parents=True)
            except errors.OutcomeUnknown:
                continue  # at worst an id is wasted
            with contextlib.suppress(errors.MetadataError):  # it is ephemeral: at worst it goes with our session
                await self.store.delete(path)
            return int(path[len(prefix) :])
        raise errors.OutcomeUnknown(f"making {prefix}: the metadata store gave no answer: look, then try again")


def _is_high_half(name: str) -> bool:
    """Return True for a node of the long id generator; what a stranger left beside those makes no id."""
    high = ids.decimal(name[4:]) if name.startswith("HOB-") else None
    return high is not None and high <= _HOB_MAX


def _flat_ids(names: Sequence[str]) -> list[LedgerId]:
    """Return the ids of the ledgers among the children of a flat root, ascending."""
    return sorted(LedgerId(int(name[1:])) for name in names if paths.is_ledger_name(name))
