"""Watches the registrations: which bookies there are, where they listen and in which zone.

Rules: spec/metadata.md#M24, M27. A bookie may be in both lists for a moment; being in either means alive, and only
bookies in the writable list get new ensembles. The watcher keeps the last known address of a bookie that is gone, since
its registration may merely be late; a connection attempt decides.

A registration stands for one process. When another session registers the same id, the client must no longer ask the old
process, which may be cut off and not know that it was replaced (`on_replaced`). The watcher's view is late; callers for
whom that matters use `look`, which asks the store again.
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
MACHINE_PROPERTY = "machine"


@dataclass(frozen=True, slots=True)
class BookieRecord:
    """One registered bookie. `address` None: its record names no bookie endpoint, so that no client can use it. `zone`:
    its location, a zone or /region/zone. `session`: of the process that registered; 0 where it may not be read.
    `machine`: the one that it shares with other bookies, or ""."""

    bookie_id: BookieId
    address: Address | None
    zone: str
    is_read_only: bool
    session: int = 0
    machine: str = ""


class BookieWatcher:
    """Keeps `records` current, in one task. Readers of `records` never wait."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        clock: Clock,
        *,
        known_locations: Mapping[str, str],
        rack_mapping_path: str,
    ) -> None:
        """`known_locations` and the record at `rack_mapping_path` (Pulsar's; "": no record) win over registered
        zones."""
        self._store = store
        self._clock = clock
        self._lists = ((paths.available(root), False), (paths.readonly(root), True))  # whether they are read-only
        self._locations = dict(known_locations)
        self._rack_mapping_path = rack_mapping_path
        self._racks: dict[str, str] = {}
        self._machines: dict[BookieId, str] = {}
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
            self._changed.set()  # a `look` ran meanwhile and may have seen newer records than these: read again
            return
        self._take(records)

    async def look(self, bookies: Iterable[BookieId]) -> list[BookieId]:
        """Ask the metadata store again about `bookies`; return those that are not registered. Raises MetadataError.

        The store answers the requests of one session in order, so these answers are at least as new as every change
        that this client made before. So a bookie that is seen here was still registered after that change, and a
        process that replaced another before it is known.
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
        """Read the registrations again soon: the caller has found the view to be old."""
        self._changed.set()

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change of `records`. Returns a function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def address(self, bookie_id: BookieId) -> Address | None:
        """Return the address to dial: the registered one, else the last known, else the id if it reads host:port."""
        known = self._addresses.get(bookie_id)
        if known is not None:
            return known
        endpoint = registration.load_service_info(bookie_id, b"").bookie_endpoint
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def session(self, bookie_id: BookieId) -> int:
        """Return the session of the process that registered the bookie last, as far as we know; 0 if none is known."""
        return self._sessions.get(bookie_id, 0)

    def is_writable(self, bookie_id: BookieId) -> bool:
        record = self.records.get(bookie_id)
        return record is not None and not record.is_read_only and record.address is not None

    def candidates(self) -> list[Candidate]:
        """Return the bookies that may get new ensembles, by id."""
        return [
            Candidate(record.bookie_id, record.zone, record.machine)
            for _, record in sorted(self.records.items())
            if not record.is_read_only and record.address is not None
        ]

    def placed(self) -> dict[BookieId, Candidate]:
        """Return where each registered bookie is, also of those that take no writes."""
        return {each.bookie_id: Candidate(each.bookie_id, each.zone, each.machine) for each in self.records.values()}

    def zones(self) -> dict[BookieId, str]:
        return {record.bookie_id: record.zone for record in self.records.values()}

    def machines(self) -> dict[BookieId, str]:
        """Return the machines of bookies that share one; of a bookie that is away, where it was last."""
        return self._machines

    async def _load_racks(self) -> dict[str, str]:
        """Return the rack mapping as it stands; the last good one while it is unreadable."""
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
        session = 0
        try:
            stored = await find(self._store, path)
            if stored is None:
                return None  # gone between the list and the look
            session = stored.owner
            info = registration.load_service_info(bookie_id, stored.data)
        except errors.UNREADABLE as error:  # this one's: the others are seen
            log.warning("a bookie's registration is unreadable bookie_id=%s reason=%s", bookie_id, error)
            info = registration.BookieServiceInfo()
        endpoint = info.bookie_endpoint
        address = None if endpoint is None else Address(endpoint.host, endpoint.port)
        own = info.property(ZONE_PROPERTY)
        location = locations.location_of(bookie_id, address.host if address else "", own, self._racks)
        machine = info.property(MACHINE_PROPERTY)
        self._machines[bookie_id] = machine
        return BookieRecord(bookie_id, address, location, is_read_only, session, machine)
