"""A BookieOperation: one act that a person asks for once, and that does not belong into desired state.

Its spec never changes, so that what was asked for, and why, can be read as long as the object stays. The operator never
writes it: it writes the status alone. What a finished operation did lies in the fleet and in the status of the
BookieCluster; the operation's own status may be lost, and then nothing is done twice (plan/operations.py says how for
each type).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from bookie.base.ids import LEDGER_ID_MAX
from bookie_operator.model import base, cel, operation_rules, shapes, values
from bookie_operator.model.base import Model
from bookie_operator.model.storage import BY_NAME


class OperationType(Enum):
    RESTART = "Restart"
    APPROVE_REGENERATION = "ApproveRegeneration"
    ACCEPT_LOSS = "AcceptLoss"
    FENCE = "Fence"
    UNFENCE = "Unfence"
    RESTORE_COOKIE = "RestoreCookie"
    REPLACE = "Replace"
    RETIRE = "Retire"
    REPLACE_VOLUME = "ReplaceVolume"
    CONFIRM_LOSS = "ConfirmLoss"
    ACCEPT_LEDGER_LOSS = "AcceptLedgerLoss"


# What a person must explain, in a sentence.
EXPLAINED = frozenset(OperationType(name) for name in operation_rules.EXPLAINED_TYPES)
# What is about one very case.
OF_EVIDENCE = frozenset(OperationType(name) for name in operation_rules.TYPES_OF_EVIDENCE)
# What names one bookie.
OF_A_BOOKIE = frozenset(OperationType(name) for name in operation_rules.TYPES_OF_A_BOOKIE)

Name = Annotated[str, Field(min_length=1, max_length=253)]
PodName = Annotated[str, Field(min_length=1, max_length=63)]
LedgerNumber = Annotated[str, Field(max_length=19), shapes.LEDGER_ID]
Evidence = Annotated[str, Field(max_length=64), shapes.EVIDENCE]


class ClusterReference(Model):
    name: Name = Field(description="The BookieCluster, in the namespace of this operation.")


class EmptyBookie(Model):
    name: PodName = Field(description="The bookie, by the name of its pod.")
    evidence: Evidence = Field(description="Its evidence, as status.bookies[].evidence of the cluster has it.")


class OperationTarget(Model):
    bookie: PodName | None = Field(default=None, description="The bookie, by the name of its pod.")
    volume: PodName | None = Field(
        default=None, description="ReplaceVolume: the volume, by its name in spec.storage of the cluster."
    )
    bookies: tuple[EmptyBookie, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra=BY_NAME,
        description="AcceptLoss: every bookie that is without its data, with its evidence.",
    )
    ledgers: tuple[LedgerNumber, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="AcceptLedgerLoss: the ledgers, by their ids.",
    )
    given_up: tuple[PodName, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="AcceptLedgerLoss: the bookies that lost what they held of these ledgers, by the names of their"
        " pods.",
    )


class OperationSpec(Model):
    model_config = ConfigDict(json_schema_extra=cel.schema(operation_rules.OPERATION))

    cluster_ref: ClusterReference
    type: OperationType = Field(
        description="Restart: the bookie stops once, in an orderly way and behind the gates of the roll-out, and comes"
        " back with what the spec says now. ApproveRegeneration: under repair.regeneration Manual, this bookie with"
        " this evidence may take its identity back. AcceptLoss: these bookies may, though as many are without their"
        " data as the ack quorum has: acknowledged entries that were on these alone are given up. Fence: the bookie"
        " stops behind the same gates and stays out of service, wherever its pod comes up, until Unfence; its claims"
        " stay, and it gets no grant. Unfence: it may come back into service. RestoreCookie: the held bookie, with this"
        " evidence, whose cookie somebody deleted from the metadata store, makes it again as its whole disks have it."
        " Replace: the bookie's ledgers move to others; when two bookies found that no ledger names it, its claims are"
        " deleted, and a new bookie begins under its name on new ones. Retire: where the spec asks for fewer bookies,"
        " the zone of this bookie becomes smaller first: the bookie leaves for good if it has the highest number there;"
        " otherwise, and where the spec asks for as many as before, it is replaced. ReplaceVolume: the bookie stops"
        " once, behind the gates of Restart and of a lost disk; the claim of this one volume goes, and it comes back"
        " with an empty one and copies what that had. ConfirmLoss: the bookie, with this evidence, is held because"
        " volumes are empty that held data, or their disks do not answer; their claims go, and its pod, so that it"
        " comes back as one that lost them."
        " AcceptLedgerLoss: what these bookies held of these ledgers is given up: one whose end nobody can decide any"
        " more is closed after the last entry that anybody still has; of a closed one the entries that no bookie has"
        " are declared lost."
    )
    target: OperationTarget = Field(default=OperationTarget(), description="What the operation is about.")
    evidence: Evidence | None = Field(
        default=None,
        description="ApproveRegeneration, RestoreCookie, ConfirmLoss: the evidence of the bookie, as"
        " status.bookies[].evidence of the cluster has it. It fits this case only: it changes with every fact.",
    )
    reason: str = Field(
        default="",
        max_length=1024,
        description="Why, for whoever reads it a year later. Types that may lose data ask for a sentence.",
    )
    expires_after: Annotated[str, shapes.DURATION] = Field(
        default="24h",
        max_length=16,
        description="An operation that has not begun so long after it was created never begins.",
    )


_NO_SUCH_LEDGER = "there is no such ledger"


class EndedLedger(Model):
    id: LedgerNumber
    said: str = Field(default="", max_length=256, description="The words of the bookie that was asked.")

    @classmethod
    def missing(cls, ledger: str) -> "EndedLedger":
        """Return what is stored of a ledger that is not there."""
        return cls(id=ledger, said=_NO_SUCH_LEDGER)

    @property
    def is_missing(self) -> bool:
        """True for a ledger that is not there. These words are all that is stored of that."""
        return self.said == _NO_SUCH_LEDGER


class OperationPhase(Enum):
    QUEUED = "Queued"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"
    EXPIRED = "Expired"
    CANCELLED = "Cancelled"

    @property
    def is_final(self) -> bool:
        return self not in (OperationPhase.QUEUED, OperationPhase.RUNNING)


class OperationStatus(Model):
    observed_generation: int = 0
    phase: OperationPhase | None = None
    message: str = ""
    target: str | None = Field(default=None, description="The target in one word, for the printed table.")
    requested_by: str | None = Field(
        default=None,
        description="The program that wrote the spec, as the API server knows it (kubectl, a pipeline). Which user"
        " asked is in the API server's audit log.",
    )
    pod_uid: str | None = Field(default=None, description="The pod that the bookie had when this was first looked at.")
    claims: tuple[str, ...] = Field(
        default=(),
        max_length=64,
        description="Replace, Retire: the uids of the claims that the bookie had when this was first looked at."
        " ReplaceVolume: of the claim of that volume. ConfirmLoss: of those of its empty or silent volumes.",
    )
    ledgers: tuple[EndedLedger, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        description="AcceptLedgerLoss: the ledgers that are done, closed and without a loss that is not declared.",
    )
    started_at: str | None = None
    finished_at: str | None = None


@dataclass(frozen=True, slots=True)
class BookieOperation:
    """One BookieOperation as it came from the API server. `spec` None: it cannot be used, and `problem` says why."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    created_ms: int
    requested_by: str
    spec: OperationSpec | None
    problem: str
    status: OperationStatus

    @property
    def is_over(self) -> bool:
        return self.status.phase is not None and self.status.phase.is_final

    @property
    def expires_ms(self) -> int:
        assert self.spec is not None
        return self.created_ms + values.parse_duration(self.spec.expires_after)


def cluster_name(manifest: Mapping[str, Any]) -> str:
    """Return the name of the cluster that a raw operation is about; "" when it names none."""
    name = ((manifest.get("spec") or {}).get("clusterRef") or {}).get("name")
    return name if isinstance(name, str) else ""


def parse(manifest: Mapping[str, Any]) -> BookieOperation:
    """Return `manifest` as an BookieOperation. A spec that cannot be used is told in `problem`; nothing is raised."""
    metadata = manifest["metadata"]
    spec, problem = _spec(manifest.get("spec") or {})
    return BookieOperation(
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        generation=int(metadata.get("generation", 1)),
        resource_version=metadata.get("resourceVersion", ""),
        created_ms=values.parse_time_or_0(metadata.get("creationTimestamp")),
        requested_by=_author(metadata.get("managedFields") or ()),
        spec=spec,
        problem=problem,
        status=_status(manifest.get("status")),
    )


def problems(spec: OperationSpec) -> Iterator[str]:
    """Yield one sentence for each CEL rule that `spec` breaks: an operator under an older CRD must not act on it."""
    said = {rule.name: rule.message for rule in operation_rules.OPERATION if rule.name}
    if spec.type in OF_A_BOOKIE and spec.target.bookie is None:
        yield said["operationTarget"]
    if (spec.type is OperationType.REPLACE_VOLUME) is not (spec.target.volume is not None):
        yield said["operationVolume"]
    if spec.type in OF_EVIDENCE and spec.evidence is None:
        yield said["operationEvidence"]
    if spec.type is OperationType.ACCEPT_LOSS and not spec.target.bookies:
        yield said["operationBookies"]
    of_ledgers = (bool(spec.target.ledgers), bool(spec.target.given_up))
    if any(of_ledgers) if spec.type is not OperationType.ACCEPT_LEDGER_LOSS else not all(of_ledgers):
        yield said["operationLedgers"]
    if any(int(ledger) > LEDGER_ID_MAX for ledger in spec.target.ledgers):
        yield said["operationLedgerIds"]
    if spec.type in EXPLAINED and len(spec.reason) < operation_rules.REASON_MIN:
        yield said["operationReason"]


def _spec(raw: Any) -> tuple[OperationSpec | None, str]:
    try:
        spec = OperationSpec.model_validate(raw)
    except ValidationError as error:
        told = "; ".join(base.sentences(error, kind="bookieoperation"))
        return None, f"this operator cannot use the spec ({told}): create another operation, or upgrade it"
    found = "; ".join(problems(spec))
    return (None, found) if found else (spec, "")


def _status(raw: Any) -> OperationStatus:
    try:
        return OperationStatus.model_validate(raw or {})
    except ValidationError:
        return OperationStatus()


def _author(managed: Any) -> str:
    """Return the field manager that wrote the spec; the operator itself owns the status alone."""
    found = [
        str(one.get("manager") or "")
        for one in managed
        if isinstance(one, dict) and not one.get("subresource") and "f:spec" in (one.get("fieldsV1") or {})
    ]
    return re.sub(r"[^ -~]", "?", found[0])[:128] if found else ""
