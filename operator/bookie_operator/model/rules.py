"""CEL rules of the CRD (spec/operator.md#K16). Each names its field, says why, and what to try next.

`checks.py` holds the same rules in Python, for API servers that carry an older CRD. Rules that mention `oldSelf` are
transition rules: only the API server can know them. Those of volumes are in `volume_rules.py`, those of a
BookieOperation in `operation_rules.py`.
"""

from bookie_operator.model import shapes, volume_rules
from bookie_operator.model.cel import CelRule
from bookie_operator.model.reserved import (
    BOOKIES_MAX,
    CLUSTER_NAME,
    CLUSTER_NAME_MAX,
    DENIED_CONFIG,
    POD_SPEC_OWN,
    RESERVED_KEYS,
    RESERVED_VOLUMES,
)

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
    *volume_rules.AT_ROOT,
    CelRule(
        # The spec alone cannot say whether they have left: a bookie that leaves runs with what its pool says.
        "!has(oldSelf.spec.pools) || !has(self.spec.pools) || !has(self.status) || !has(self.status.pools)"
        " || self.status.pools.all(s, s.desired == 0 || !oldSelf.spec.pools.exists(o, o.name == s.name)"
        " || self.spec.pools.exists(n, n.name == s.name))",
        "spec.pools: a pool is taken out that still has bookies (status.pools[].desired), and they leave by what it"
        " says: set its replicas to 0, and take it out when it has none",
        field=".spec.pools",
        reason="FieldValueForbidden",
    ),
)

# All volumes of a bookie are of kind Ephemeral, or none is (below), so that the journal's tell.
_HAS_EPHEMERAL = (
    "self.storage.journal.volumes.exists(v, has(v.kind) && v.kind == 'Ephemeral')"
    " || (has(self.pools) && self.pools.exists(p, has(p.storage)"
    " && p.storage.journal.volumes.exists(v, has(v.kind) && v.kind == 'Ephemeral')))"
)

SPEC = (
    CelRule(
        "has(self.replicas) != has(self.pools)",
        "spec.replicas or spec.pools must be there, and not both: with pools each says its own replicas",
        name="replicasOrPools",
    ),
    CelRule(
        "!has(self.pools) || !has(self.zones)",
        "spec.pools and spec.zones: give one of them. With pools each says its own zone: take zones out",
        field=".pools",
        name="poolsOrZones",
    ),
    CelRule(
        "!has(self.pools) || self.pools.map(p, p.replicas).sum() >= self.quorum.ensembleSize",
        "spec.pools have fewer replicas together than spec.quorum.ensembleSize, so no ledger could ever be created:"
        " raise replicas",
        field=".pools",
        name="poolsOfEnsemble",
    ),
    CelRule(
        f"!has(self.pools) || self.pools.map(p, p.replicas).sum() <= {BOOKIES_MAX}",
        f"spec.pools have more than {BOOKIES_MAX} replicas together: make another BookieCluster",
        field=".pools",
        name="poolsMost",
    ),
    CelRule(
        "!has(self.pools) || self.placement.antiAffinity == 'Required'"
        " || self.pools.all(p, !has(p.perNode) || p.perNode == 1)",
        "spec.pools[].perNode is more than 1 and spec.placement.antiAffinity is not Required: then any number of"
        " bookies may share a node, and none says so. Set antiAffinity to Required, or leave perNode out",
        field=".pools",
        name="perNodeAffinity",
    ),
    CelRule(
        "!has(self.pools) || self.pools.all(p, !has(p.perNode) || p.perNode == 1) || self.pools.map(p,"
        " (p.replicas + (has(p.perNode) ? p.perNode : 1) - 1) / (has(p.perNode) ? p.perNode : 1)).sum()"
        " * (self.quorum.ensembleSize / self.quorum.writeQuorum) >= self.quorum.ensembleSize",
        "spec.pools[].perNode: with so many bookies on a node they may all be on so few nodes that copies of one entry"
        " share one, and the node takes all of them along. Lower perNode, raise replicas, or lower"
        " spec.quorum.ensembleSize",
        field=".pools",
        name="perNodeHosts",
    ),
    CelRule(
        "!has(self.replicas) || self.replicas >= self.quorum.ensembleSize",
        "spec.replicas is less than spec.quorum.ensembleSize, so no ledger could ever be created: raise"
        " replicas to at least ensembleSize",
        field=".replicas",
        name="replicasOfEnsemble",
    ),
    CelRule(
        "!has(self.zones) || !has(self.replicas) || self.replicas >= self.zones.size()",
        "spec.replicas is less than the number of spec.zones, so a zone would stay empty: raise replicas",
        field=".replicas",
        name="replicasOfZones",
    ),
    CelRule(
        "has(self.zones) == has(oldSelf.zones) || (has(self.pools) && !has(oldSelf.pools))",
        "spec.zones cannot be added or removed later: bookie ids contain the zone. Create another BookieCluster, or go"
        " over to spec.pools",
        field=".zones",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "has(self.pools) || !has(oldSelf.pools)",
        "spec.pools cannot be taken out later: what its bookies are made of is said there alone. Keep them, or create"
        " another BookieCluster",
        field=".pools",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "!has(self.pools) || has(oldSelf.pools) || !has(oldSelf.zones) || oldSelf.zones.all(z, self.pools.exists(p,"
        " p.name == z.name && has(p.zone) && p.zone == z.name && !has(p.storage)))",
        "spec.pools must begin with one pool for each of spec.zones, with the zone's name as `name` and as `zone` and"
        " without storage of its own: ids and volumes of bookies do not change. Name the pools as the zones are named",
        field=".pools",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "!has(self.pools) || has(oldSelf.pools) || has(oldSelf.zones)"
        " || self.pools.exists(p, p.name == 'default' && !has(p.zone) && !has(p.storage))",
        "spec.pools must begin with a pool named default, without zone and without storage of its own: it is where the"
        " bookies of a cluster without zones are, and their ids contain the name",
        field=".pools",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "self.storage.journalWriteData || has(self.storage.acknowledgeNoJournal)"
        " || (has(self.zones) && self.zones.size() >= 3)"
        " || (has(self.pools) && self.pools.exists(a, has(a.zone) && a.replicas > 0 && self.pools.exists(b,"
        " has(b.zone) && b.replicas > 0 && b.zone != a.zone && self.pools.exists(c, has(c.zone) && c.replicas > 0"
        " && c.zone != a.zone && c.zone != b.zone))))",
        "spec.storage.journalWriteData: false over fewer than three spec.zones (or zones of pools) loses acknowledged"
        " entries when one zone"
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
        f"!({_HAS_EPHEMERAL}) || self.lifecycle.deletionPolicy == 'Delete'",
        "spec.storage: volumes of kind Ephemeral go with their pods, and so with this resource, whatever"
        " spec.lifecycle.deletionPolicy says: set it to Delete, or use claims",
        field=".lifecycle.deletionPolicy",
        name="ephemeralRetain",
    ),
    CelRule(
        f"!({_HAS_EPHEMERAL}) || !self.lifecycle.hibernate",
        "spec.lifecycle.hibernate ends all pods, and volumes of kind Ephemeral go with them: set it to false",
        field=".lifecycle.hibernate",
        name="ephemeralHibernate",
    ),
    CelRule(
        f"self.storage.journalWriteData || !{shapes.DURATION.fits('self.lifecycle.terminationGrace')}"
        " || duration(self.lifecycle.terminationGrace) >= duration('2m')",
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

ROLLOUT = (
    CelRule(
        f"!has(self.windows) || self.windows.all(w, !{shapes.DURATION.fits('w.duration')}"
        " || duration(w.duration).getSeconds() >= self.maxSecondsPerBookie)",
        "spec.rollout.windows: a window is shorter than spec.rollout.maxSecondsPerBookie, so no bookie could ever be"
        " stopped within it: make it longer, or lower maxSecondsPerBookie",
        field=".windows",
        name="windowTooShort",
    ),
    CelRule(
        f"!has(self.windows) || self.windows.all(w, !{shapes.DURATION.fits('w.duration')}"
        " || duration(w.duration) <= duration('168h'))",
        "spec.rollout.windows: a window is longer than a week (168h): shorten it, or leave windows out, which means"
        " always",
        field=".windows",
        name="windowTooLong",
    ),
)

ZONES = (
    CelRule(
        "self.all(n, oldSelf.exists(o, o.name == n.name)) || oldSelf.all(o, self.exists(n, n.name == o.name))",
        "spec.zones may get further zones or lose some, and not both in one edit: a zone that is renamed is another"
        " one, and all its bookies would leave. Add the new one first",
        reason="FieldValueForbidden",
    ),
)

POOLS = (
    CelRule(
        "oldSelf.all(o, o.replicas == 0 || self.exists(n, n.name == o.name))",
        "spec.pools: a pool is taken out, or renamed, that has replicas: its bookies' ids contain its name. Set its"
        " replicas to 0 first, and take it out when its bookies have left",
        reason="FieldValueForbidden",
    ),
)

POOL = (
    CelRule(
        "has(self.zone) == has(oldSelf.zone) && (!has(self.zone) || self.zone == oldSelf.zone)",
        "spec.pools[].zone cannot change: volumes stay in their zone. Make another pool in the other zone, then set the"
        " replicas of this one to 0",
        field=".zone",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "has(self.storage) == has(oldSelf.storage)",
        "spec.pools[].storage cannot be added or removed later: volumes would change. Make another pool, then set the"
        " replicas of this one to 0",
        field=".storage",
        reason="FieldValueForbidden",
    ),
    CelRule(
        f"!has(self.config) || self.config.all(key, !(key in {list(DENIED_CONFIG)!r}))",
        "spec.pools[].config sets a key that has a field of its own or that the operator owns (bookieId, ports,"
        " directories, metadataServiceUri, journalWriteData, zone, regeneration, ...): remove it and use the field",
        field=".config",
    ),
    CelRule(
        "(has(oldSelf.perNode) ? oldSelf.perNode : 1) <= (has(self.perNode) ? self.perNode : 1)",
        "spec.pools[].perNode cannot be lowered: bookies that share a node could not start there again. Make another"
        " pool, then set the replicas of this one to 0",
        field=".perNode",
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
        f"!{shapes.METADATA_URI.fits('self.uri')} || self.uri.split('/', 4)[0] == oldSelf.uri.split('/', 4)[0]"
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

NETWORK = (
    CelRule(
        # What Kubernetes would complete stays open: else the Service would never be as it was applied.
        "!has(self.ipFamilies) || self.ipFamilies.size() == 0 || (has(self.ipFamilyPolicy)"
        " && self.ipFamilies.size() == (self.ipFamilyPolicy == 'SingleStack' ? 1 : 2)"
        " && self.ipFamilyPolicy != 'PreferDualStack')",
        "spec.network.ipFamilies needs spec.network.ipFamilyPolicy: one family with SingleStack, both with"
        " RequireDualStack, none with PreferDualStack",
        field=".ipFamilies",
        name="ipFamilies",
    ),
    CelRule(
        "!has(self.ipFamilies) || self.ipFamilies.size() < 2 || self.ipFamilies[0] != self.ipFamilies[1]",
        "spec.network.ipFamilies names one family twice: name each once",
        field=".ipFamilies",
        name="ipFamiliesTwice",
    ),
    CelRule(
        "!has(oldSelf.ipFamilies) || oldSelf.ipFamilies.size() == 0 || !has(self.ipFamilies)"
        " || self.ipFamilies.size() == 0 || self.ipFamilies[0] == oldSelf.ipFamilies[0]",
        "spec.network.ipFamilies cannot change its first family at once, since pods of an older operator listen to that"
        " one alone: say PreferDualStack without ipFamilies first, and the other one when every pod is up to date",
        field=".ipFamilies",
        reason="FieldValueForbidden",
    ),
)

SECURITY = (
    CelRule(
        "!self.tls.clientCertificates || has(self.tls.secretName)",
        "spec.security.tls.clientCertificates needs spec.security.tls.secretName: the operator makes certificates for"
        " bookies, and none for clients",
        field=".tls.clientCertificates",
        name="tlsClients",
    ),
    CelRule(
        "self.tls.mode == 'Disabled' || oldSelf.tls.mode == 'Disabled'"
        " || has(self.tls.secretName) == has(oldSelf.tls.secretName)",
        "spec.security.tls.secretName comes or goes while TLS is on, and bookies would not trust each other's"
        " certificates: set mode Disabled (by Permissive), wait for UpToDate=True, then change it",
        field=".tls.secretName",
        reason="FieldValueForbidden",
    ),
    CelRule(
        "self.authentication.mode == 'Disabled' || has(self.authentication.secretName)",
        "spec.security.authentication.mode is not Disabled, and spec.security.authentication.secretName names no Secret"
        " with jaas.conf: name it",
        field=".authentication.secretName",
        name="authenticationSecret",
    ),
    *(
        CelRule(
            " && ".join(
                f"(self.{part}.mode != '{new}' || oldSelf.{part}.mode != '{old}')"
                for old, new in (("Disabled", "Required"), ("Required", "Disabled"))
            ),
            f"spec.security.{part}.mode changes between Disabled and Required in one step, and bookies of both kinds"
            " would not serve each other: set Permissive, wait for UpToDate=True, then go on",
            field=f".{part}.mode",
            reason="FieldValueForbidden",
        )
        for part in ("tls", "authentication")
    ),
)

# What else of it the operator refuses: resources/pod_template.py, which reads the whole of it.
POD_SPEC = (
    CelRule(
        " && ".join(f"!has(self.{name})" for name in POD_SPEC_OWN),
        f"spec.podTemplate.spec must have none of {', '.join(POD_SPEC_OWN)}: a bookie's identity, end and volumes"
        " depend on them. Remove it; for the time to stop in there is spec.lifecycle.terminationGrace",
    ),
    CelRule(
        f"!has(self.volumes) || self.volumes.all(v, !v.name.startsWith('{RESERVED_VOLUMES}'))",
        f"spec.podTemplate.spec.volumes: a name begins with {RESERVED_VOLUMES}, as the operator's own volumes do:"
        " choose another name",
        field=".volumes",
    ),
)

POD_METADATA = tuple(
    CelRule(
        f"!has(self.{part}) || self.{part}.all(key, !key.startsWith('{RESERVED_KEYS}'))",
        f"spec.podTemplate.metadata.{part}: a name begins with {RESERVED_KEYS}: the operator knows its pods by it:"
        " choose another name",
        field=f".{part}",
    )
    for part in ("labels", "annotations")
)
