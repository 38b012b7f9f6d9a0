"""The closed list of reasons why a volume or a bookie is judged as it is: one table for all other modules. Pure.

A reason belongs to one conclusion, has one sentence for people, and one event if it holds a bookie. `make crds` copies
the table into docs/OPERATOR.md. The reasons for which a bookie holds itself are in `bookie.ports.admin: HELD`; each
becomes a row here by itself.
"""

from dataclasses import dataclass
from enum import Enum

from bookie.ports.admin import HELD, Verdict


class Conclusion(Enum):
    HEALTHY = "Healthy"
    BOOTSTRAP = "Bootstrap"
    LOST_VOLUME = "LostVolume"
    ADDING = "Adding"
    MOUNT_MISSING = "MountMissing"
    HELD = "Held"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    conclusion: Conclusion
    reason: str  # one CamelCase word of the table, stable
    message: str  # one sentence: what, why, what to look at


@dataclass(frozen=True, slots=True)
class Reason:
    """One row. `text`: a sentence about "{volume}", or about the bookie. `event`: the warning while the reason holds a
    bookie."""

    word: str
    conclusion: Conclusion
    text: str
    event: str = "BookieHeld"


_EXPLICIT = (
    Reason("Valid", Conclusion.HEALTHY, "{volume} is valid"),
    Reason(
        "Reattached", Conclusion.HEALTHY, "{volume} is valid, and its claim has no mark: the operator marks it again"
    ),
    Reason(
        "NewVolume", Conclusion.BOOTSTRAP, "{volume} is empty and new: the bookie has no cookie, and no ledger names it"
    ),
    Reason("EmptyVolume", Conclusion.LOST_VOLUME, "{volume} is empty on a new claim, and the bookie has a cookie"),
    Reason(
        "EmptyWithNewPod",
        Conclusion.LOST_VOLUME,
        "{volume} went with the pod before, this pod's is empty, and the bookie has a cookie",
    ),
    Reason(
        "LocalDiskWasReset",
        Conclusion.LOST_VOLUME,
        "{volume} is empty on a new file system of a local disk, and its machine booted or was made anew since",
    ),
    Reason(
        "StaleVolumeGivenUp",
        Conclusion.LOST_VOLUME,
        "{volume} went back in time: what is there is kept, and what it lacks is given up",
    ),
    Reason("Regenerating", Conclusion.LOST_VOLUME, "{volume} is half regenerated: its regeneration did not end"),
    Reason(
        "AddedVolume",
        Conclusion.ADDING,
        "{volume} is empty and never was this bookie's: the bookie adds it, and nothing is lost",
    ),
    Reason("MountSuspect", Conclusion.MOUNT_MISSING, "{volume} has a mount that is not proven", "MountNotProven"),
    Reason(
        "NotOfThePod",
        Conclusion.MOUNT_MISSING,
        "{volume} is to go with its pod (kind Ephemeral), and is not what the kubelet made for this pod",
        "MountNotProven",
    ),
    Reason(
        "SharedFilesystem",
        Conclusion.MOUNT_MISSING,
        "{volume} is on the node's own disk, and the spec does not set allowSharedFilesystem for it",
        "MountNotProven",
    ),
    Reason(
        "WipedInPlace", Conclusion.HELD, "{volume} is empty on the same file system: somebody deleted or formatted it"
    ),
    Reason("EmptyButInitialized", Conclusion.HELD, "{volume} is empty on another file system behind the same claim"),
    Reason("ResetLocalDisk", Conclusion.HELD, "{volume} is empty on a new file system of a local disk"),
    Reason(
        "IncarnationWentBack",
        Conclusion.HELD,
        "{volume} has a claim that knows a later incarnation than the metadata store",
    ),
    Reason(
        "SharedVolumeUnchanged",
        Conclusion.HELD,
        "{volume} is empty on a shared disk, on the PersistentVolume that it always had",
    ),
    Reason(
        "SharedVolumeUnproven",
        Conclusion.HELD,
        "{volume} is empty on a shared disk, and its PersistentVolume cannot be compared with the old one",
    ),
    Reason("ClaimTerminating", Conclusion.HELD, "{volume} is empty, and somebody is deleting its claim"),
    Reason("ClaimNewerThanPod", Conclusion.HELD, "{volume} is empty, and its claim is younger than the pod on it"),
    Reason("Disagreement", Conclusion.HELD, "operator and bookie conclude differently"),
    Reason("WrongIdentity", Conclusion.HELD, "the pod calls itself by another bookie's id"),
    Reason("HeldByBookie", Conclusion.HELD, "the bookie holds itself for a reason that this operator does not know"),
    Reason("PodMissing", Conclusion.UNKNOWN, "the pod does not exist"),
    Reason("NoReport", Conclusion.UNKNOWN, "the pod gives no storage report"),
    Reason("ReportOfAnotherPod", Conclusion.UNKNOWN, "the report comes from another pod"),
    Reason("Inspecting", Conclusion.UNKNOWN, "the bookie is inspecting its volumes"),
    Reason("InTransition", Conclusion.UNKNOWN, "the bookie is replacing its cookie"),
    Reason("NotReported", Conclusion.UNKNOWN, "{volume} is not in the bookie's report"),
    Reason("ClaimMissing", Conclusion.UNKNOWN, "{volume} has no claim yet"),
    Reason(
        "MetadataUnreachable", Conclusion.UNKNOWN, "{volume} is empty, and the bookie cannot ask the metadata store"
    ),
    Reason("LedgersNotCounted", Conclusion.UNKNOWN, "{volume} is empty, and the bookie has not read all ledgers yet"),
)
_OF_VERDICTS = tuple(
    Reason(
        hold.reason,
        Conclusion.MOUNT_MISSING if verdict is Verdict.MOUNT_MISSING else Conclusion.HELD,
        hold.text,
        hold.event,
    )
    for verdict, hold in HELD.items()
)
TABLE = {row.word: row for row in (*_EXPLICIT, *_OF_VERDICTS)}
assert len(TABLE) == len(_EXPLICIT) + len(_OF_VERDICTS)


def finding(word: str, message: str) -> Finding:
    """Return the finding for the reason `word`, with a message of the caller's."""
    return Finding(TABLE[word].conclusion, word, message)


def page() -> str:
    """Return the table as docs/OPERATOR.md shows it."""
    rows = sorted(TABLE.values(), key=lambda row: list(Conclusion).index(row.conclusion))
    lines = [f"| {row.conclusion.value} | `{row.word}` | {row.text.format(volume='the volume')} |" for row in rows]
    return "\n".join(["| conclusion | reason | what is so |", "|---|---|---|", *lines])
