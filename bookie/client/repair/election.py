"""Elects the auditor among processes of ours and Java's: the lowest living vote leads (spec/metadata.md#M45).

Java never looks at its own vote again and stops with its session. Ours looks at each turn, and votes anew after a lost
session: then it stands behind all others. Never: an order that trusts the vote alone. What an auditor does is harmless
when two do it, since marks are hints.
"""

import contextlib
import logging
from collections.abc import AsyncIterator

from bookie.base import errors, ids
from bookie.base.ids import BookieId
from bookie.metadata import paths, repair
from bookie.ports.metadata_store import MetadataStore, find, find_children

log = logging.getLogger(__name__)


class Election:
    """The vote of one process. `me`: what it is called; Java parses it as a bookie id, and it need not be one."""

    def __init__(self, store: MetadataStore, root: str, me: BookieId) -> None:
        self._store = store
        self._root = root
        self._parent = paths.auditor_votes(root)
        self._me = me
        self._told: dict[str, str] = {}

    async def leads(self) -> bool:
        """Vote if our vote does not stand; return True when it is the lowest. Raises MetadataError."""
        for _ in range(2):
            first, has_voted = None, False
            async for owner, _ in votes(self._store, self._root, self._told):
                first = owner if first is None else first
                # By the session that made it: after a lost answer it is ours all the same, and no second one is made.
                if owner == self._store.session_id:
                    has_voted = True
                    break
            if has_voted:
                return first == self._store.session_id
            await self._vote()
        return False

    async def _vote(self) -> None:
        try:
            await self._store.create(
                f"{self._parent}/V_", repair.dump_vote(self._me), ephemeral=True, sequential=True, parents=True
            )
        except errors.OutcomeUnknown:
            return  # the next look finds it, or votes again

    async def announce(self) -> None:
        """Write that we lead where Java's auditor does, into the parent of the votes: for whoever looks there. Best
        effort, and nothing that decides. Raises MetadataError unless the answer alone was lost."""
        with contextlib.suppress(errors.OutcomeUnknown):
            await self._store.put(self._parent, repair.dump_vote(self._me), -1)

    async def withdraw(self) -> None:
        """Remove our votes, so that another leads at once; best effort: they end with our session at the latest."""
        try:
            for name in await find_children(self._store, self._parent):
                vote = await find(self._store, f"{self._parent}/{name}")
                if vote is not None and vote.owner == self._store.session_id:
                    await self._store.delete(f"{self._parent}/{name}")
        except errors.MetadataError:
            return


async def votes(store: MetadataStore, root: str, told: dict[str, str]) -> AsyncIterator[tuple[int, BookieId]]:
    """Yield the session and the name of each process that stands for auditor, the first in line first. What belongs
    to no session, or cannot be read (whatever bytes, whoever may), is a stranger's and no vote: in front of all
    others it would keep everybody from ever auditing. `told`: what was logged of such nodes, which is logged once.
    Raises MetadataError."""
    parent = paths.auditor_votes(root)
    for name in sorted(await find_children(store, parent), key=order):
        vote = None
        try:
            vote = await find(store, f"{parent}/{name}")
            if vote is None:
                continue
            bookie_id = repair.load_vote(vote.data)
            if not vote.owner:
                raise errors.BadInput("it belongs to no session, so no living process made it: delete it")
        except errors.UNREADABLE as error:
            if vote is not None and vote.owner == store.session_id:  # or each look would make one more, for ever
                yield vote.owner, BookieId("")
                continue
            if told.get(name) != str(error):
                told[name] = str(error)
                log.warning("no vote for auditor, and left alone path=%s reason=%s", f"{parent}/{name}", error)
            continue
        yield vote.owner, bookie_id


def order(name: str) -> int:
    """Return the place of the vote of that name; what is no vote comes last."""
    number = ids.decimal(name.rpartition("_")[2])
    return number if number is not None else 1 << 63
