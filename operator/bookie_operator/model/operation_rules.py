"""CEL rules of a BookieOperation, and the lists of its types that they and the Python rules share."""

from bookie_operator.model.cel import CelRule

# Of a BookieOperation. By their names, so that the rules in CEL and in Python are of one list.
TYPES_OF_A_BOOKIE = (
    "Restart",
    "ApproveRegeneration",
    "Fence",
    "Unfence",
    "RestoreCookie",
    "Replace",
    "Retire",
    "ReplaceVolume",
    "ConfirmLoss",
)
TYPES_OF_EVIDENCE = ("ApproveRegeneration", "RestoreCookie", "ConfirmLoss")
EXPLAINED_TYPES = ("ApproveRegeneration", "AcceptLoss", "RestoreCookie", "ConfirmLoss", "AcceptLedgerLoss")
REASON_MIN = 20

OPERATION = (
    CelRule(
        "self == oldSelf",
        "spec of a BookieOperation never changes: what was asked for, and why, stays readable. Delete this one (it is"
        " cancelled unless it has begun) and create another",
        reason="FieldValueForbidden",
    ),
    CelRule(
        f"!(self.type in {list(TYPES_OF_A_BOOKIE)!r}) || has(self.target.bookie)",
        "spec.target.bookie is missing: this type of operation is about one bookie. Name it as its pod is named"
        " (`kubectl get pods`)",
        field=".target",
        name="operationTarget",
    ),
    CelRule(
        "(self.type == 'ReplaceVolume') == has(self.target.volume)",
        "spec.target.volume names the volume of a ReplaceVolume, and belongs to no other type: take its name from"
        " spec.storage of the cluster",
        field=".target",
        name="operationVolume",
    ),
    CelRule(
        f"!(self.type in {list(TYPES_OF_EVIDENCE)!r}) || has(self.evidence)",
        "spec.evidence is missing: this type of operation is for one very case. Take it from"
        " status.bookies[].evidence of the cluster",
        name="operationEvidence",
    ),
    CelRule(
        "self.type != 'AcceptLoss' || (has(self.target.bookies) && self.target.bookies.size() > 0)",
        "spec.target.bookies is empty: name every bookie that is without its data, each with its evidence"
        " (status.bookies[].evidence of the cluster)",
        field=".target",
        name="operationBookies",
    ),
    CelRule(
        "self.type == 'AcceptLedgerLoss'"
        " ? has(self.target.ledgers) && self.target.ledgers.size() > 0"
        " && has(self.target.givenUp) && self.target.givenUp.size() > 0"
        " : (!has(self.target.ledgers) || self.target.ledgers.size() == 0)"
        " && (!has(self.target.givenUp) || self.target.givenUp.size() == 0)",
        "spec.target.ledgers and spec.target.givenUp belong to AcceptLedgerLoss, which needs both: name the ledgers by"
        " their ids (`bookie integrity status` of a bookie tells which are blocked), and the bookies that lost what"
        " they held of them by their pods",
        field=".target",
        name="operationLedgers",
    ),
    CelRule(
        "!has(self.target.ledgers) || self.target.ledgers.all(l, l.size() < 19 || l <= '9223372036854775807')",
        "spec.target.ledgers: no ledger has an id above 9223372036854775807 (2^63-1): take the ids from"
        " `bookie integrity status` of a bookie",
        field=".target",
        name="operationLedgerIds",
    ),
    CelRule(
        f"!(self.type in {list(EXPLAINED_TYPES)!r}) || (has(self.reason) && self.reason.size() >= {REASON_MIN})",
        f"spec.reason is shorter than {REASON_MIN} characters: say why, for whoever reads it a year later",
        field=".reason",
        name="operationReason",
    ),
)
