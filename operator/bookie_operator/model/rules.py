"""CEL rules of the CRD (spec/operator.md#K16). Each names its field, says why, and what to try next.

`checks.py` holds the same rules in Python, for API servers that carry an older CRD. Rules that mention `oldSelf` are
transition rules: only the API server can know them. Rules that will relax when the feature behind them comes
(scale-down, expansion, layout change) say so.
"""

from dataclasses import dataclass

from pydantic.config import JsonDict


@dataclass(frozen=True, slots=True)
class CelRule:
    """One x-kubernetes-validations entry. `field` is relative to the place of the rule, as the API server wants it.

    `name` is not in the CRD: `checks.py` says by it which rule is broken. A rule that only CEL checks has none.
    """

    cel: str
    message: str
    field: str = ""
    reason: str = "FieldValueInvalid"
    name: str = ""

    def as_schema(self) -> JsonDict:
        out: JsonDict = {"rule": self.cel, "message": self.message, "reason": self.reason}
        if self.field:
            out["fieldPath"] = self.field
        return out


def schema(rules: tuple[CelRule, ...]) -> JsonDict:
    return {"x-kubernetes-validations": [rule.as_schema() for rule in rules]}


DENIED_CONFIG = (
    "bookieId",
    "bookiePort",
    "adminPort",
    "adminTlsPort",
    "adminTlsDirectory",
    "adminTokenFile",
    "adminSocket",
    "metricsPort",
    "advertisedAddress",
    "listeningAddress",
    "listeningInterface",
    "useHostNameAsBookieID",
    "useShortHostName",
    "allowLoopback",
    "permittedStartupUsers",
    "journalDirectories",
    "journalDirectory",
    "ledgerDirectories",
    "indexDirectories",
    "metadataServiceUri",
    "zkServers",
    "zkLedgersRootPath",
    "ledgerManagerFactoryClass",
    "ledgerManagerType",
    "zkTimeout",
    # metadataService.security
    "zkEnableSecurity",
    "zkJaasFile",
    "zkJaasSectionName",
    "zookeeper.sasl.clientconfig",
    "zkDigestFile",
    "zkTlsEnabled",
    "zookeeper.client.secure",
    "zkTlsTrustStore",
    "zookeeper.ssl.trustStore.location",
    "zkTlsTrustStoreType",
    "zookeeper.ssl.trustStore.type",
    "zkTlsTrustStorePasswordPath",
    "zookeeper.ssl.trustStore.passwordPath",
    "zkTlsKeyStore",
    "zookeeper.ssl.keyStore.location",
    "zkTlsKeyStoreType",
    "zookeeper.ssl.keyStore.type",
    "zkTlsKeyStorePasswordPath",
    "zookeeper.ssl.keyStore.passwordPath",
    "zkTlsCertificatePath",
    "journalWriteData",
    "zone",
    "regeneration",
    "volumeProof",
    "allowSharedFilesystem",
    "copyRateBytesPerSecond",
    "shutdownTimeoutMs",
    "adminTokenFile",
    "autoRecoveryDaemonEnabled",
    "dataIntegrityChecking",
    "dataIntegrityStampMissingCookies",
    "allowStorageExpansion",
)

# Of pods 55 characters: {name}-{zone}-{ordinal}; Kubernetes wants 63 at most in labels and host names.
CLUSTER_NAME_MAX = 30
CLUSTER_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
# Of volumes of a pod: the operator's own.
RESERVED_VOLUMES = "bookie-"

ROOT = (
    CelRule(
        f"size(self.metadata.name) <= {CLUSTER_NAME_MAX}",
        "metadata.name is longer than 30 characters, and names of pods are made from it: choose a shorter one",
        name="shortName",
    ),
    CelRule(
        f"self.metadata.name.matches('{CLUSTER_NAME}')",
        "metadata.name cannot become the name of a Service: it has to begin with a letter and have lower-case letters,"
        " digits and '-' only (no dot, and not '-' at its end): choose another one",
        name="serviceName",
    ),
)

SPEC = (
    CelRule(
        "self.replicas >= self.quorum.ensembleSize",
        "spec.replicas is less than spec.quorum.ensembleSize, so no ledger could ever be created: raise"
        " replicas to at least ensembleSize",
        field=".replicas",
        name="replicasOfEnsemble",
    ),
    CelRule(
        "!has(self.zones) || self.replicas >= self.zones.size()",
        "spec.replicas is less than the number of spec.zones, so a zone would stay empty: raise replicas",
        field=".replicas",
        name="replicasOfZones",
    ),
    CelRule(
        "self.replicas >= oldSelf.replicas",
        "spec.replicas cannot be lowered yet: taking a bookie away needs its ledgers moved first. Keep the number",
        field=".replicas",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "has(self.zones) == has(oldSelf.zones)",
        "spec.zones cannot be added or removed later: bookie ids contain the zone. Create another BookieCluster",
        field=".zones",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "self.storage.journalWriteData || has(self.storage.acknowledgeNoJournal)"
        " || (has(self.zones) && self.zones.size() >= 3)",
        "spec.storage.journalWriteData: false over fewer than three spec.zones loses acknowledged entries when one zone"
        " loses power: use three zones, or set spec.storage.acknowledgeNoJournal: IAcceptLossOnCorrelatedPowerFailure",
        field=".storage.journalWriteData",
        name="noJournal",
    ),
    CelRule(
        "self.storage.journalWriteData == oldSelf.storage.journalWriteData"
        " || (has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image))",
        "spec.storage.journalWriteData and spec.image changed in one edit: change one, wait for Reconciling=False, then"
        " the other",
        field=".storage.journalWriteData",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "self.repair.maxConcurrent <= (self.quorum.ackQuorum > 1 ? self.quorum.ackQuorum - 1 : 1)",
        "spec.repair.maxConcurrent is more than spec.quorum.ackQuorum - 1: more empty bookies at once than the ack"
        " quorum survives. Lower maxConcurrent",
        field=".repair.maxConcurrent",
        name="maxConcurrent",
    ),
    CelRule(
        "self.disruption.maxUnavailable <= (self.quorum.ackQuorum > 2 ? self.quorum.ackQuorum - 1 : 1)",
        "spec.disruption.maxUnavailable is more than the ack quorum survives (ackQuorum - 1): lower it",
        field=".disruption.maxUnavailable",
        name="maxUnavailable",
    ),
    CelRule(
        "self.repair.regeneration != 'BookieLocal' || !self.lifecycle.deletionProtection",
        "spec.repair.regeneration: BookieLocal lets bookies regenerate without proof, for throw-away clusters only: set"
        " spec.lifecycle.deletionProtection: false too, or use Gated",
        field=".repair.regeneration",
        name="bookieLocal",
    ),
    CelRule(
        "self.storage.journalWriteData || duration(self.lifecycle.terminationGrace) >= duration('2m')",
        "spec.lifecycle.terminationGrace is under 2m with spec.storage.journalWriteData: false, and everything must be"
        " flushed at shutdown: set at least 2m",
        field=".lifecycle.terminationGrace",
        name="terminationGrace",
    ),
    CelRule(
        f"!has(self.config) || self.config.all(key, !(key in {list(DENIED_CONFIG)!r}))",
        "spec.config sets a key that has a field of its own or that the operator owns (bookieId, ports, directories,"
        " metadataServiceUri, journalWriteData, zone, regeneration, ...): remove it and use the field",
        field=".config",
    ),
)

ZONES = (
    CelRule(
        "oldSelf.all(o, self.exists(n, n.name == o.name)) && self.size() == oldSelf.size()",
        "spec.zones cannot change after creation yet: bookies would have to move between zones, and their ids contain"
        " the zone. Create another BookieCluster",
        reason="FieldValueForbidden",
    ),
)

QUORUM = (
    CelRule(
        "self.ensembleSize >= self.writeQuorum",
        "spec.quorum.writeQuorum is more than ensembleSize: an entry cannot be written to more bookies than the"
        " ensemble has. Lower writeQuorum or raise ensembleSize",
        field=".writeQuorum",
        name="writeQuorum",
    ),
    CelRule(
        "self.writeQuorum >= self.ackQuorum",
        "spec.quorum.ackQuorum is more than writeQuorum: no entry could ever be acknowledged. Lower ackQuorum",
        field=".ackQuorum",
        name="ackQuorum",
    ),
)

METADATA = (
    CelRule(
        "self.uri.split('/', 4)[0] == oldSelf.uri.split('/', 4)[0]"
        " && self.uri.split('/', 4)[3] == oldSelf.uri.split('/', 4)[3]",
        "spec.metadataService.uri may change its hosts only: another scheme or path is another cluster's metadata",
        field=".uri",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "!has(oldSelf.expectedInstanceId) || (has(self.expectedInstanceId)"
        " && self.expectedInstanceId == oldSelf.expectedInstanceId)",
        "spec.metadataService.expectedInstanceId cannot change once it is set: it is what protects from a wrong store",
        field=".expectedInstanceId",
        reason="FieldValueForbidden",
    ),
    CelRule(
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
    CelRule(
        "self.index.volumes.size() == 0 || self.index.volumes.size() == self.ledgers.volumes.size()",
        "spec.storage.index.volumes must be none, or as many as spec.storage.ledgers.volumes: each has an index of"
        " its own",
        field=".index",
        name="indexVolumes",
    ),
    CelRule(
        "self.journal.volumes.all(j, !self.ledgers.volumes.exists(l, l.name == j.name)"
        " && !self.index.volumes.exists(i, i.name == j.name))"
        " && self.ledgers.volumes.all(l, !self.index.volumes.exists(i, i.name == l.name))",
        "spec.storage: a volume name is used in two roles, and claims are named after volumes: give each its own name",
        name="volumeNames",
    ),
    CelRule(
        # One by one: to the API server the three lists are of three types, and no list holds them together.
        " && ".join(
            f"self.{role}.volumes.all(v, !v.name.startsWith('{RESERVED_VOLUMES}'))"
            for role in ("journal", "ledgers", "index")
        ),
        f"spec.storage: a volume's name begins with {RESERVED_VOLUMES}, as the operator's own volumes in the pod do:"
        " choose another name",
        name="reservedVolumes",
    ),
    *(
        CelRule(
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
    CelRule(
        "self.data != self.admin && self.data != self.metrics && self.admin != self.metrics"
        " && !(self.adminTls in [self.data, self.admin, self.metrics])",
        "spec.network.ports: data, admin, adminTls and metrics must be four different ports",
        name="ports",
    ),
    CelRule(
        "self.data == oldSelf.data && self.admin == oldSelf.admin",
        "spec.network.ports.data and .admin cannot change: writers hold the old address. Keep them",
        reason="FieldValueForbidden",
    ),
)
