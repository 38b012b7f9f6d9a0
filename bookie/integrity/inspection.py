"""Looks once at everything a boot decides on: metadata store, volumes, marker. Writes nothing, anywhere.

Used by the boot itself, by the storage report, and again at the moment a grant arrives: the three see the same thing.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_S
from bookie.client.ledgers import LedgerStore
from bookie.integrity import evidence, position, verdict, volumes
from bookie.integrity.identity import IdentityStore, StoredIdentity
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.options import IntegrityOptions
from bookie.integrity.scan import scan
from bookie.integrity.verdict import UNCOUNTED, Decision, Facts
from bookie.integrity.volumes import VolumeExpectation
from bookie.metadata import cookie
from bookie.metadata.cookie import Cookie
from bookie.ports import World
from bookie.ports.admin import Contents, VolumeReport
from bookie.storage import dirs
from bookie.storage.options import StorageOptions

_COUNT_KEPT_NS = 30 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was seen, and what follows from it."""

    identity: StoredIdentity
    master: Cookie
    volumes: tuple[VolumeReport, ...]
    decision: Decision
    evidence_hash: str
    is_dirty: bool
    is_set_back: bool
    added: tuple[str, ...] = ()  # directories of the settings that the cookie lacks, and that may be added to it
    ledger_count: int = UNCOUNTED
    ledgers_naming_me: int = UNCOUNTED


class BookieInspector:
    """Inspects one bookie."""

    def __init__(
        self,
        bookie_id: BookieId,
        storage: StorageOptions,
        options: IntegrityOptions,
        world: World,
        identities: IdentityStore,
        ledgers: LedgerStore,
        retry: MetadataRetry,
    ) -> None:
        self._bookie_id = bookie_id
        self._storage = storage
        self._options = options
        self._world = world
        self._identities = identities
        self._ledgers = ledgers
        self._retry = retry
        self._named: tuple[int, tuple[int, int]] | None = None  # until when, (ledgers, naming us)

    async def look(self, *, is_serving: bool = False) -> Inspection:
        """Inspect; wait for the metadata store as long as it takes. Raises RefusedToStart, StorageFailed.

        `is_serving`: the marker on disk is this process's own and says nothing about the past; and a volume that cannot
        be read is an error then, as for every other reader: the boot is over, and nothing is held any more.
        """
        identity = await self._identities.read()
        master = self._master(identity.instance_id)
        added = self._added(identity, master)
        expected = VolumeExpectation(
            self._bookie_id, identity.instance_id, master, identity.record, stored=identity.cookie, added=added
        )
        found = await volumes.inspect(self._world, self._storage, self._options, expected)
        silent = next((report for report in found if volumes.is_unreadable(report)), None)
        if silent is not None and is_serving:
            raise errors.StorageFailed(f"{silent.path} ({silent.role}): {silent.reason}")
        is_dirty = is_set_back = lost_writes = False
        if silent is None:  # else nothing is concluded from them: it is held, whatever they say
            is_dirty = await dirs.is_dirty(self._world.disk, self._storage)
            is_set_back = not is_serving and await self._is_set_back(identity)
            lost_writes = await dirs.may_have_lost(self._world.disk, self._storage)
        ledger_count = naming = UNCOUNTED
        facts = Facts(
            volumes=found,
            cookie_present=identity.cookie is not None or bool(identity.cookie_problem),
            record=identity.record,
            cookie_problem="" if added else _problem(identity, master, found),
            way_back=_way_back(identity, found),
            lost_writes=lost_writes and not is_serving,
            set_back=is_set_back,
            set_aside=_set_aside(identity) if not is_serving else "",
        )
        decision = verdict.decide(facts)
        if decision.verdict is None:
            # Only here a scan is worth it: no cookie, nothing on disk. Is this bookie new, or was its cookie deleted?
            ledger_count, naming = await self._count()
            decision = verdict.decide(dataclasses.replace(facts, ledgers_naming_me=naming))
        assert silent is None or decision.is_held, "a boot goes on only when every volume was read"
        return Inspection(
            identity=identity,
            master=master,
            volumes=found,
            decision=decision,
            evidence_hash=evidence.digest(
                bookie_id=self._bookie_id,
                pod_uid=self._world.host.pod_uid,
                instance_id=identity.instance_id,
                cookie_version=identity.cookie_version,
                cookie_digest=identity.cookie_digest,
                record=identity.record,
                volumes=found,
            ),
            is_dirty=is_dirty,
            is_set_back=is_set_back,
            added=added,
            ledger_count=ledger_count,
            ledgers_naming_me=naming,
        )

    async def _is_set_back(self, identity: StoredIdentity) -> bool:
        """Return True when the disks hold less than the reported position. Reads the position before the disks: another
        process of this id may still advance it."""
        stored = await self._identities.position()
        return await dirs.is_set_back(self._world.disk, self._storage) or await position.is_behind(
            self._world, self._storage, stored, identity.record
        )

    def _master(self, instance_id: str) -> Cookie:
        storage = self._storage
        return Cookie(self._bookie_id, storage.journal_dirs, storage.ledger_dirs, storage.index_dirs, instance_id)

    def _added(self, identity: StoredIdentity, master: Cookie) -> tuple[str, ...]:
        if identity.cookie is None or identity.cookie_problem or not self._options.allow_storage_expansion:
            return ()
        return cookie.added(identity.cookie, master)

    async def _count(self) -> tuple[int, int]:
        """Count all ledgers, and those that name this bookie; unreadable ones that contain its id count too.

        A count above zero is believed for a while: a held bookie must not read all metadata every two seconds.
        """
        now_ns = self._world.clock.monotonic_ns()
        if self._named is not None and now_ns < self._named[0]:
            return self._named[1]
        self._named = None
        count = naming = 0
        # One record that may not be read ends it: it may name us, and it is no proof that our cookie was deleted.
        found_in = scan(self._ledgers, self._retry, concurrency=self._options.scan_concurrency, may_name=None)
        async for batch in found_in:
            count += len(batch)
            for found in batch:
                if found.metadata is None:
                    naming += self._bookie_id.encode() in found.data
                else:
                    naming += found.metadata.names(self._bookie_id)
        if naming:
            self._named = (self._world.clock.monotonic_ns() + _COUNT_KEPT_NS, (count, naming))
        return count, naming


def _set_aside(identity: StoredIdentity) -> str:
    order = identity.aside
    if order is None or not order.is_aside:
        return ""
    order_id = order.order_id or "?"
    back = "a BookieOperation Unfence takes it back"
    return f"a person took this bookie out of service: {order.why} (order {order_id}); {back}"


def _problem(identity: StoredIdentity, master: Cookie, found: Sequence[VolumeReport]) -> str:
    if identity.record_problem and identity.cookie_problem == identity.record_problem:
        return f"{identity.record_problem}; {_way_back(identity, found)}"
    if identity.cookie is None:
        return identity.cookie_problem
    reason = identity.cookie_problem or cookie.mismatch(master, identity.cookie)
    if reason and cookie.added(identity.cookie, master):
        return f"{reason}; correct the settings, or add directories with allowStorageExpansion=true"
    return f"{reason}; correct the settings" if reason else ""


def _way_back(identity: StoredIdentity, found: Sequence[VolumeReport]) -> str:
    """Say what helps a bookie whose incarnation record is gone or spoilt. By hand it is written only from volumes that
    all say the same: were they set back, the position that they told the metadata store still shows it."""
    restore = f"restore {identity.record_path} from a backup of the metadata store"
    said = {(each.sentinel.incarnation, each.sentinel.boot_epoch) for each in found if each.sentinel is not None}
    if len(said) != 1 or any(each.contents is not Contents.VALID for each in found):
        return restore
    ((incarnation, boot_epoch),) = said
    record = {"instance_id": identity.instance_id, "incarnation": incarnation, "boot_epoch": boot_epoch}
    return (
        f"{restore}; if there is none, and these volumes were never set back or copied from elsewhere, write there what"
        f" they say: {json.dumps(record)}"
    )
