"""Which bookies there are, where they listen and in which zone: a live view of the registrations.

Rules: spec/metadata.md#M24, M27. A bookie may be registered in both lists for a moment; being in either means alive,
only the writable list takes new ensembles. The last known address of a bookie that is gone is kept, since its
registration may merely be late; a connection attempt decides.

A registration stands for one process. When another session registers the same id, whatever is connected to the old
process must not be asked any more: it may be cut off and not know that it was replaced (`on_replaced`). The view is
late; where that matters, `look` asks again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.metadata import locations, paths, registration
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import MetadataStore, find, find_children
from bookie.ports.network import Address
from bookie.quorum.placement import Candidate

log = logging.getLogger(__name__)

# After an error; registrations that changed meanwhile are seen at the next success.
RETRY_NS = 500 * NS_PER_MS
ZONE_PROPERTY = "zone"


@dataclass(frozen=True, slots=True)
class BookieRecord:
    """One registered bookie. `address` is None when its record names no bookie endpoint: it cannot be used. `zone` is
    its location: a zone, or /region/zone. `session`: of the process that registered."""

    bookie_id: BookieId
    address: Address | None
    zone: str
    is_read_only: bool
    session: int = 0


class BookieWatcher:
    """Keeps `records` current. One task; readers of the view never wait."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        clock: Clock,
        *,
        known_locations: Mapping[str, str],
        rack_mapping_path: str,
    ) -> None:
        """`known_locations` and the record at `rack_mapping_path` (Pulsar's; "": none) go before what bookies say."""
        self._store = store
        self._clock = clock
        self._lists = ((paths.available(root), False), (paths.readonly(root), True))  # whether they are read-only
        self._locations = dict(known_locations)
        self._rack_mapping_path = rack_mapping_path
        self._racks: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self._sessions: dict[BookieId, int] = {}  # the last known, of those that are gone too
        self._looks = 0
        self.on_replaced: Callable[[BookieId], None] = lambda bookie_id: None
        self._addresses: dict[BookieId, Address] = {}
        self.records: dict[BookieId, BookieRecord] = {}

    async def load(self) -> None:
        """Read the registrations once. Raises MetadataError."""
        looks = self._looks
        self._racks = await self._load_racks() | self._locations
        records: dict[BookieId, BookieRecord] = {}
        for directory, is_read_only in self._lists:
            for name in await find_children(self._store, directory):
                bookie_id = BookieId(name)
                if name == "readonly" or bookie_id in records:
                    continue  # the second list itself; or in both lists: writable wins, as for Java's clients
                record = await self._record(bookie_id, f"{directory}/{name}", is_read_only=is_read_only)
                if record is not None:
                    records[bookie_id] = record
        if looks != self._looks:
            self._changed.set()  # what was read before that look may be older than what it saw
            return
        self._take(records)

    async def look(self, bookies: Iterable[BookieId]) -> list[BookieId]:
        """Ask the metadata store again about `bookies`; return those that are not registered. Raises MetadataError.

        One session's requests are answered in order: what is seen is at least as new as any change that was made by
        this client before. So who is seen here was registered after it, and whoever replaced another before is known.
        """
        wanted = list(bookies)
        records = dict(zip(wanted, await asyncio.gather(*map(self._find, wanted)), strict=True))
        self._looks += 1
        found = {bookie_id: record for bookie_id, record in records.items() if record is not None}
        others = {bookie_id: record for bookie_id, record in self.records.items() if bookie_id not in records}
        self._take(others | found)
        return [bookie_id for bookie_id in wanted if bookie_id not in found]

    def _take(self, records: dict[BookieId, BookieRecord]) -> None:
        self._addresses.update({r.bookie_id: r.address for r in records.values() if r.address is not None})
        replaced = [r.bookie_id for r in records.values() if self._sessions.get(r.bookie_id, r.session) != r.session]
        self._sessions.update({r.bookie_id: r.session for r in records.values()})
        if records != self.records:
            self.records = records
            for listener in list(self._listeners):
                listener()
        for bookie_id in replaced:
            self.on_replaced(bookie_id)

    async def _find(self, bookie_id: BookieId) -> BookieRecord | None:
        for directory, is_read_only in self._lists:
            record = await self._record(bookie_id, f"{directory}/{bookie_id}", is_read_only=is_read_only)
            if record is not None:
                return record
        return None

    async def run(self) -> None:
        """Follow the registrations for ever."""
        watched = [directory for directory, _ in self._lists]
        if self._rack_mapping_path:
            watched.append(self._rack_mapping_path)
        ends = [self._store.watch(path, self._changed.set) for path in watched]
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    await self.load()
                except errors.MetadataError as error:
                    log.warning("bookies cannot be listed, will try again reason=%s", error)
                    self._changed.set()
                    await self._clock.sleep_until(self._clock.monotonic_ns() + RETRY_NS)
        finally:
            for end in ends:
                end()

    def refresh(self) -> None:
        """Look again soon: something showed that the view is old."""
        self._changed.set()

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change of `records`. Returns a function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def address(self, bookie_id: BookieId) -> Address | None:
        """Where to dial: the registered address, else the last one known, else the id if it reads host:port."""
        known = self._addresses.get(bookie_id)
        if known is not None:
            return known
        endpoint = registration.load_service_info(bookie_id, b"").bookie_endpoint
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def session(self, bookie_id: BookieId) -> int:
        """The session of the process that registered it last, as far as we know; 0 if none is known."""
        return self._sessions.get(bookie_id, 0)

    def is_writable(self, bookie_id: BookieId) -> bool:
        record = self.records.get(bookie_id)
        return record is not None and not record.is_read_only and record.address is not None

    def candidates(self) -> list[Candidate]:
        """Bookies that take new ensembles, by id."""
        return [
            Candidate(record.bookie_id, record.zone)
            for _, record in sorted(self.records.items())
            if not record.is_read_only and record.address is not None
        ]

    def zones(self) -> dict[BookieId, str]:
        return {record.bookie_id: record.zone for record in self.records.values()}

    async def _load_racks(self) -> dict[str, str]:
        """The mapping as it stands; the last good one while it cannot be read."""
        if not self._rack_mapping_path:
            return {}
        try:
            stored = await self._store.get(self._rack_mapping_path)
            return locations.load_rack_mapping(stored.data)
        except errors.NodeMissing:
            return {}
        except errors.BadInput as error:
            log.warning("the rack mapping is unreadable path=%s reason=%s", self._rack_mapping_path, error)
            return self._racks

    async def _record(self, bookie_id: BookieId, path: str, *, is_read_only: bool) -> BookieRecord | None:
        stored = await find(self._store, path)
        if stored is None:
            return None  # gone between the list and the look
        try:
            info = registration.load_service_info(bookie_id, stored.data)
        except errors.BadInput as error:
            log.warning("a bookie's registration is unreadable bookie_id=%s reason=%s", bookie_id, error)
            info = registration.BookieServiceInfo()
        endpoint = info.bookie_endpoint
        address = None if endpoint is None else Address(endpoint.host, endpoint.port)
        own = info.property(ZONE_PROPERTY)
        location = locations.location_of(bookie_id, address.host if address else "", own, self._racks)
        return BookieRecord(bookie_id, address, location, is_read_only, stored.owner)
