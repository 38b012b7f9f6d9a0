"""CEL rules of the CRD (operators.md 2.2). Each names its field, says why, and what to try next.

`checks.py` holds the same rules in Python, for API servers that carry an older CRD. Rules that mention `oldSelf` are
transition rules: only the API server can know them. Rules that will relax when the feature behind them comes
(scale-down, expansion, layout change) say so.
"""

from dataclasses import dataclass

from pydantic.config import JsonDict


@dataclass(frozen=True, slots=True)
class Rule:
    """One x-kubernetes-validations entry. `field` is relative to the place of the rule, as the API server wants it."""

    cel: str
    message: str
    field: str = ""
    reason: str = "FieldValueInvalid"

    def as_schema(self) -> JsonDict:
        out: JsonDict = {"rule": self.cel, "message": self.message, "reason": self.reason}
        if self.field:
            out["fieldPath"] = self.field
        return out


def schema(rules: tuple[Rule, ...]) -> JsonDict:
    return {"x-kubernetes-validations": [rule.as_schema() for rule in rules]}


DENIED_CONFIG = (
    "bookieId",
    "bookiePort",
    "adminPort",
    "metricsPort",
    "advertisedAddress",
    "listeningAddress",
    "journalDirectories",
    "ledgerDirectories",
    "indexDirectories",
    "metadataServiceUri",
    "zkServers",
    "zkLedgersRootPath",
    "journalWriteData",
    "zone",
    "regeneration",
    "volumeProof",
    "allowSharedFilesystem",
    "autoRecoveryDaemonEnabled",
    "dataIntegrityChecking",
    "dataIntegrityStampMissingCookies",
    "allowStorageExpansion",
)

ROOT = (
    Rule(
        "size(self.metadata.name) <= 30",
        "metadata.name is longer than 30 characters, and names of pods are made from it: choose a shorter one",
    ),
)

SPEC = (
    Rule(
        "self.replicas >= self.quorum.ensembleSize",
        "spec.replicas is less than spec.quorum.ensembleSize, so no ledger could ever be created: raise"
        " replicas to at least ensembleSize",
        field=".replicas",
    ),
    Rule(
        "!has(self.zones) || self.replicas >= self.zones.size()",
        "spec.replicas is less than the number of spec.zones, so a zone would stay empty: raise replicas",
        field=".replicas",
    ),
    Rule(
        "self.replicas >= oldSelf.replicas",
        "spec.replicas cannot be lowered yet: taking a bookie away needs its ledgers moved first. Keep the number",
        field=".replicas",
        reason="FieldValueForbidden",
    ),
    Rule(
        "has(self.zones) == has(oldSelf.zones)",
        "spec.zones cannot be added or removed later: bookie ids contain the zone. Create another BookieCluster",
        field=".zones",
        reason="FieldValueForbidden",
    ),
    Rule(
        "self.storage.journalWriteData || has(self.storage.acknowledgeNoJournal)"
        " || (has(self.zones) && self.zones.size() >= 3)",
        "spec.storage.journalWriteData: false over fewer than three spec.zones loses acknowledged entries when one zone"
        " loses power: use three zones, or set spec.storage.acknowledgeNoJournal: IAcceptLossOnCorrelatedPowerFailure",
        field=".storage.journalWriteData",
    ),
    Rule(
        "self.storage.journalWriteData == oldSelf.storage.journalWriteData"
        " || (has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image))",
        "spec.storage.journalWriteData and spec.image changed in one edit: change one, wait for Reconciling=False, then"
        " the other",
        field=".storage.journalWriteData",
        reason="FieldValueForbidden",
    ),
    Rule(
        "self.repair.maxConcurrent <= (self.quorum.ackQuorum > 1 ? self.quorum.ackQuorum - 1 : 1)",
        "spec.repair.maxConcurrent is more than spec.quorum.ackQuorum - 1: more empty bookies at once than the ack"
        " quorum survives. Lower maxConcurrent",
        field=".repair.maxConcurrent",
    ),
    Rule(
        "self.disruption.maxUnavailable <= (self.quorum.ackQuorum > 2 ? self.quorum.ackQuorum - 1 : 1)",
        "spec.disruption.maxUnavailable is more than the ack quorum survives (ackQuorum - 1): lower it",
        field=".disruption.maxUnavailable",
    ),
    Rule(
        "self.repair.regeneration != 'BookieLocal' || !self.lifecycle.deletionProtection",
        "spec.repair.regeneration: BookieLocal lets bookies regenerate without proof, for throw-away clusters only: set"
        " spec.lifecycle.deletionProtection: false too, or use Gated",
        field=".repair.regeneration",
    ),
    Rule(
        "self.storage.journalWriteData || duration(self.lifecycle.terminationGrace) >= duration('2m')",
        "spec.lifecycle.terminationGrace is under 2m with spec.storage.journalWriteData: false, and everything must be"
        " flushed at shutdown: set at least 2m",
        field=".lifecycle.terminationGrace",
    ),
    Rule(
        f"!has(self.config) || self.config.all(key, !(key in {list(DENIED_CONFIG)!r}))",
        "spec.config sets a key that has a field of its own or that the operator owns (bookieId, ports, directories,"
        " metadataServiceUri, journalWriteData, zone, regeneration, ...): remove it and use the field",
        field=".config",
    ),
)

ZONES = (
    Rule(
        "oldSelf.all(o, self.exists(n, n.name == o.name)) && self.size() == oldSelf.size()",
        "spec.zones cannot change after creation yet: bookies would have to move between zones, and their ids contain"
        " the zone. Create another BookieCluster",
        reason="FieldValueForbidden",
    ),
)

QUORUM = (
    Rule(
        "self.ensembleSize >= self.writeQuorum",
        "spec.quorum.writeQuorum is more than ensembleSize: an entry cannot be written to more bookies than the"
        " ensemble has. Lower writeQuorum or raise ensembleSize",
        field=".writeQuorum",
    ),
    Rule(
        "self.writeQuorum >= self.ackQuorum",
        "spec.quorum.ackQuorum is more than writeQuorum: no entry could ever be acknowledged. Lower ackQuorum",
        field=".ackQuorum",
    ),
)

METADATA = (
    Rule(
        "self.uri.split('/', 4)[0] == oldSelf.uri.split('/', 4)[0]"
        " && self.uri.split('/', 4)[3] == oldSelf.uri.split('/', 4)[3]",
        "spec.metadataService.uri may change its hosts only: another scheme or path is another cluster's metadata",
        field=".uri",
        reason="FieldValueForbidden",
    ),
    Rule(
        "!has(oldSelf.expectedInstanceId) || (has(self.expectedInstanceId)"
        " && self.expectedInstanceId == oldSelf.expectedInstanceId)",
        "spec.metadataService.expectedInstanceId cannot change once it is set: it is what protects from a wrong store",
        field=".expectedInstanceId",
        reason="FieldValueForbidden",
    ),
    Rule(
        "self.initialize != 'IfAbsent' || oldSelf.initialize == 'IfAbsent'",
        "spec.metadataService.initialize cannot be switched to IfAbsent later: a store that lost its metadata would be"
        " formatted anew. Keep Never, and initialise by hand with `bookie cluster init`",
        field=".initialize",
        reason="FieldValueForbidden",
    ),
)

_FIXED = (
    "cannot change on a running fleet yet (size, class, number and names are fixed at creation): create another"
    " BookieCluster and move the ledgers"
)

STORAGE = (
    Rule(
        "self.index.volumes.size() == 0 || self.index.volumes.size() == self.ledgers.volumes.size()"
        " || self.index.volumes.size() == 1",
        "spec.storage.index.volumes must be none, one, or as many as spec.storage.ledgers.volumes",
        field=".index",
    ),
    Rule(
        "self.journal.volumes.all(j, !self.ledgers.volumes.exists(l, l.name == j.name)"
        " && !self.index.volumes.exists(i, i.name == j.name))"
        " && self.ledgers.volumes.all(l, !self.index.volumes.exists(i, i.name == l.name))",
        "spec.storage: a volume name is used in two roles, and claims are named after volumes: give each its own name",
    ),
    *(
        Rule(
            f"self.{role}.volumes.size() == oldSelf.{role}.volumes.size() && oldSelf.{role}.volumes.all(o,"
            f" self.{role}.volumes.exists(n, n.name == o.name && n.size == o.size"
            " && (has(n.kind) ? n.kind : 'Claim') == (has(o.kind) ? o.kind : 'Claim')"
            " && has(n.storageClassName) == has(o.storageClassName)"
            " && (!has(n.storageClassName) || n.storageClassName == o.storageClassName)"
            " && has(n.accessMode) == has(o.accessMode)"
            " && (!has(n.accessMode) || n.accessMode == o.accessMode)))",
            f"spec.storage.{role}.volumes {_FIXED}",
            field=f".{role}",
            reason="FieldValueForbidden",
        )
        for role in ("journal", "ledgers", "index")
    ),
)

PORTS = (
    Rule(
        "self.data != self.admin && self.data != self.metrics && self.admin != self.metrics",
        "spec.network.ports: data, admin and metrics must be three different ports",
    ),
    Rule(
        "self.data == oldSelf.data && self.admin == oldSelf.admin",
        "spec.network.ports.data and .admin cannot change: writers hold the old address. Keep them",
        reason="FieldValueForbidden",
    ),
)
