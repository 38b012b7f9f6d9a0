"""Facts about volumes, cookie and history -> what this boot may conclude. Pure; the worst volume decides.

Rules: spec/bp46.md#R10 to R14; docs/INTEGRITY.md has the table, and each row a test. What no row names is
held for a person: a missing fact is never taken for a harmless one.
"""

from dataclasses import dataclass

from bookie.metadata.cookie import IncarnationRecord
from bookie.ports.admin import Contents, MountProof, Verdict, VolumeReport

UNCOUNTED = -1

_WORST_CONTENTS = (
    (Contents.FOREIGN, Verdict.FOREIGN),
    (Contents.UNKNOWN, Verdict.UNKNOWN_CONTENT),
    (Contents.UNSPECIFIED, Verdict.UNKNOWN_CONTENT),
    # Before STALE, for which a grant is possible: none is while nobody knows what a volume holds.
    (Contents.UNREADABLE, Verdict.UNREADABLE),
    (Contents.STALE, Verdict.STALE),
)
_MEND = (
    "mend its disk, or mount an empty one there: this bookie then takes what was on it from the others, once it is"
    " allowed to (`bookie integrity grant`)"
)


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts that decide a verdict.

    `cookie_problem`: why the stored cookie cannot be ours as configured ("" when it can, or is absent).
    `ledgers_naming_me`: UNCOUNTED until somebody looked. `lost_writes`: the last stop was not clean, and that boot did
    not put entry data into the journal. `set_aside`: why a person took this bookie out of service; "" when nobody did.
    `way_back`: what helps when the record is gone.
    """

    volumes: tuple[VolumeReport, ...]
    cookie_present: bool
    record: IncarnationRecord | None
    cookie_problem: str = ""
    ledgers_naming_me: int = UNCOUNTED
    lost_writes: bool = False
    set_back: bool = False
    set_aside: str = ""
    way_back: str = "restore the store from a backup"


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome. `verdict` None: a fact is still missing (the count of ledgers that name this bookie)."""

    verdict: Verdict | None
    reason: str
    lost: tuple[str, ...] = ()  # names of the empty volumes, when the verdict is LOST
    added: tuple[str, ...] = ()  # of those that never held anything and become this bookie's now
    stale: tuple[str, ...] = ()  # of those that went back in time, when a grant may give up what they lack

    @property
    def is_held(self) -> bool:
        return self.verdict is not None and self.verdict.is_held


def decide(facts: Facts) -> Decision:
    """Return the verdict, and one readable sentence with the reason."""
    return _aside(facts) or _mounts(facts) or _bad_contents(facts) or _cookie(facts) or _incarnation(facts)


def _aside(facts: Facts) -> Decision | None:
    """Hold a bookie that a person took out of service, before anything else is thought of it: also one without a
    cookie, which would begin anew (spec/operator.md#U6)."""
    return Decision(Verdict.SET_ASIDE, facts.set_aside) if facts.set_aside else None


def _mounts(facts: Facts) -> Decision | None:
    for volume in facts.volumes:
        if volume.mount.proof in (MountProof.MISSING, MountProof.SUSPECT, MountProof.UNSPECIFIED):
            return Decision(
                Verdict.MOUNT_MISSING,
                f"{volume.role} volume {volume.name}: {volume.mount.reason or 'the mount is not proven'}; "
                "nothing is written until it is",
            )
    return None


def _bad_contents(facts: Facts) -> Decision | None:
    for contents, verdict in _WORST_CONTENTS:
        for volume in facts.volumes:
            if volume.contents is contents:
                why = f"{volume.role} volume {volume.name}: {volume.reason}"
                why = f"{why}; {_MEND}" if verdict is Verdict.UNREADABLE else why
                return Decision(verdict, why, stale=_repairable(facts) if verdict is Verdict.STALE else ())
    return None


def _repairable(facts: Facts) -> tuple[str, ...]:
    """Return the volumes that went back in time, when the metadata store proves that they are this bookie's own; else
    (). No volume is foreign, unknown or unreadable here: those verdicts are worse."""
    if not facts.cookie_present or facts.cookie_problem or facts.record is None:
        return ()
    return tuple(volume.name for volume in facts.volumes if volume.contents is Contents.STALE)


def _cookie(facts: Facts) -> Decision | None:
    if facts.cookie_present:
        if facts.cookie_problem:
            return Decision(Verdict.UNKNOWN_CONTENT, facts.cookie_problem)
        if facts.record is None and _any(facts, Contents.VALID):
            return Decision(
                Verdict.COOKIE_MISSING,
                "the volumes hold data, but this bookie's incarnation record is gone from the metadata store:"
                f" correct metadataServiceUri if it is another store; else {facts.way_back}",
            )
        return None
    if _any(facts, Contents.VALID):
        return Decision(
            Verdict.COOKIE_MISSING,
            "the volumes hold data, but this bookie's cookie is gone from the metadata store: if it went by accident"
            " and that is the right store and whole, restore the cookie (`bookie cookie create`, with current/VERSION"
            " of a directory); if somebody decommissioned this bookie on purpose, and `bookie cluster references` finds"
            " no ledger that names it, begin with empty directories (move away what is in these); else correct"
            " metadataServiceUri, or restore the store",
        )
    if facts.ledgers_naming_me == UNCOUNTED:
        return Decision(None, "looking for ledgers that name this bookie")
    if facts.ledgers_naming_me > 0:
        return Decision(
            Verdict.COOKIE_MISSING,
            f"{facts.ledgers_naming_me} ledgers name this bookie, so it is not new, but its cookie is gone from the "
            "metadata store: restore the cookie",
        )
    return Decision(Verdict.BOOTSTRAP, "no cookie, no data, and no ledger names this bookie: it is new")


def _incarnation(facts: Facts) -> Decision:
    """Decide when the cookie exists, mounts are proven, and every volume is empty, added, valid or half regenerated."""
    begun = [volume for volume in facts.volumes if volume.contents is Contents.REGENERATING]
    empty = tuple(volume.name for volume in facts.volumes if volume.contents is Contents.EMPTY)
    added = tuple(volume.name for volume in facts.volumes if volume.contents is Contents.ADDED)
    if added and (empty or begun):
        # Beside a loss it counts as lost too: what that asks for is never less than what an added volume needs.
        return Decision(
            Verdict.LOST,
            f"{', '.join((*empty, *(volume.name for volume in begun)))}: this bookie had data there, and it is gone;"
            f" {', '.join(added)} cannot be added before that is repaired, so it is counted with them",
            (*empty, *(volume.name for volume in begun), *added),
        )
    if empty:
        which = "all volumes are" if len(empty) == len(facts.volumes) else f"{', '.join(empty)} is"
        return Decision(Verdict.LOST, f"{which} empty, but the cookie says that this bookie had data", empty)
    if begun:
        if all(_is_committed(volume, facts.record) for volume in begun):
            return Decision(Verdict.RESUME, f"{begun[0].reason}; it is finished now")
        names = tuple(volume.name for volume in begun)
        return Decision(Verdict.LOST, f"{begun[0].reason}; it needs a grant to go on", names)
    if facts.set_back:
        return Decision(
            Verdict.UNCLEAN,
            "the volumes went back in time: the journal ends before the position that this bookie told the metadata"
            " store, so entries, fences and marks may be gone",
            added=added,
        )
    if facts.lost_writes:
        return Decision(
            Verdict.UNCLEAN, "the last stop was not clean and entry data was not in the journal", added=added
        )
    more = f"; {', '.join(added)} is empty and never was this bookie's: it is added" if added else ""
    return Decision(Verdict.HEALTHY, f"cookie, volumes and metadata store agree{more}", added=added)


def _is_committed(volume: VolumeReport, record: IncarnationRecord | None) -> bool:
    """Return True when this volume's regeneration reached the metadata store, the linearization point."""
    mark = volume.sentinel
    assert mark is not None, "a regenerating volume has a sentinel"
    return record is not None and (mark.incarnation, mark.grant_id) == (record.incarnation, record.grant_id)


def _any(facts: Facts, contents: Contents) -> bool:
    return any(volume.contents is contents for volume in facts.volumes)
