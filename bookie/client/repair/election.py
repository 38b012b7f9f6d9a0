"""Elects the auditor among processes of ours and Java's: the lowest living vote leads (spec/metadata.md#M45).

Java never looks at its own vote again and stops with its session. Ours looks at each turn, and votes anew after a lost
session: then it stands behind all others. Never: an order that trusts the vote alone. What an auditor does is harmless
when two do it, since marks are hints.
"""

import contextlib

from bookie.base import errors, ids
from bookie.base.ids import BookieId
from bookie.metadata import paths, repair
from bookie.ports.metadata_store import MetadataStore, find, find_children


class Election:
    """The vote of one process. `me`: what it is called; Java parses it as a bookie id, and it need not be one."""

    def __init__(self, store: MetadataStore, root: str, me: BookieId) -> None:
        self._store = store
        self._parent = paths.auditor_votes(root)
        self._me = me

    async def leads(self) -> bool:
        """Vote if our vote does not stand; return True when it is the lowest. Raises MetadataError."""
        for _ in range(2):
            first, has_voted = None, False
            for name in sorted(await find_children(self._store, self._parent), key=order):
                vote = await find(self._store, f"{self._parent}/{name}")
                if vote is None:
                    continue
                first = vote.owner if first is None else first
                # By the session that made it: after a lost answer it is ours all the same, and no second one is made.
                if vote.owner == self._store.session_id:
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


def order(name: str) -> int:
    """Return the place of the vote of that name; what is no vote comes last."""
    number = ids.decimal(name.rpartition("_")[2])
    return number if number is not None else 1 << 63
