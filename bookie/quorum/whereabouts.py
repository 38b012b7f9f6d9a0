"""Tells what became of a bookie that is not registered, as far as the metadata store can tell. Pure.

For people: it says what to look at first. Nobody decides by it: a bookie that is not registered counts as lost after
the cluster's delay, whatever became of it (`mending`), and what of its data may be given up has rules of its own
(`given_up`). Never: "emptied" where nothing proves it.
"""

import enum

from bookie.base import errors
from bookie.metadata import cookie
from bookie.ports.metadata_store import Stored
from bookie.quorum import given_up

_NOT_BEGUN = 0  # the incarnation in the claim of a bookie whose first one has not begun (`integrity.identity`)


class Whereabouts(enum.Enum):
    """What became of it."""

    STARTING = "starting"  # a process has its id, and is not registered yet
    AWAY = "away"  # it has lived, and may come back with all its data
    EMPTIED = "emptied"  # it began anew since the ledger was made, with an empty disk or more, and is away again
    NO_COOKIE = "no cookie"  # it has lived, and may wait with all its data
    FORGOTTEN = "forgotten"  # a person, or a drain that ended, gave its disks up
    NEVER = "never registered"  # nothing is known of it


_SAID = {
    Whereabouts.STARTING: "a process of it is starting and is not registered yet: wait for it, or look at its log",
    Whereabouts.AWAY: "it was registered before, and its disks may be whole: start it; one that runs and waits says why"
    " (`bookie integrity report --admin ...`)",
    # One of several disks may have been empty, and what came to it since then may be nowhere else.
    Whereabouts.EMPTIED: "it began anew since this ledger was made, with an empty disk or more, and is away again. It"
    " may have entries all the same: of other disks of it, or that came to it since. Start it, and it takes from the"
    " others what it lacks and they have",
    Whereabouts.NO_COOKIE: "it was registered before, and its cookie is gone from the metadata store: it may wait with"
    " all its data (`bookie integrity report --admin ...`)",
    Whereabouts.FORGOTTEN: "it was forgotten (`bookie cookie delete`, `bookie cluster decommission`): nobody waits for"
    " its disks",
    Whereabouts.NEVER: "nothing is known of it: it never was registered in this cluster, or it is one of Java's whose"
    " cookie was deleted",
}


def judge(
    identity: Stored | None,
    life: Stored | None,
    made: Stored | None,
    *,
    has_sign: bool,
    has_position: bool,
) -> Whereabouts:
    """Return what became of a bookie. `identity`: its cookie. `life`: its record of lives. `made`: the ledger's record.
    `has_sign`: a process stands under its id. `has_position`: it told how far its disks reached."""
    if has_sign:
        return Whereabouts.STARTING
    if identity is not None:
        return Whereabouts.EMPTIED if given_up.has_begun_anew(life, identity, made) else Whereabouts.AWAY
    if has_position:
        return Whereabouts.NO_COOKIE
    if life is None:
        return Whereabouts.NEVER
    if cookie.is_forgotten(life.data):
        return Whereabouts.FORGOTTEN
    try:
        has_lived = cookie.load_incarnation(life.data).incarnation != _NOT_BEGUN
    except errors.BadInput:
        has_lived = True
    return Whereabouts.NO_COOKIE if has_lived else Whereabouts.NEVER


def sentence(found: Whereabouts) -> str:
    """Return it for a person, with what to do."""
    return _SAID[found]
