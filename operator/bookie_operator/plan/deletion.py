"""Whether the claims go with the BookieCluster: only when its spec and an annotation that names it both say so. Pure.

No finalizer: nothing waits for an operator that is gone. While both say so the claims have the cluster as an owner, and
Kubernetes' own garbage collection deletes them with it; when one is taken back, so are the owners. Cookies and ledger
metadata are never deleted this way (spec/operator.md#C1 to C3).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bookie_operator.evidence.facts import ClaimFacts
from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.status import DeletionStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan.actions import OwnClaim
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed
from bookie_operator.resources.common import Manifest


@dataclass(frozen=True, slots=True)
class Deletion:
    status: DeletionStatus | None  # None: nothing goes with the resource, and nobody asks for it
    actions: tuple[OwnClaim, ...] = ()

    @property
    def taken_back(self) -> tuple[OwnClaim, ...]:
        """Return what comes before everything else: whatever fails in this pass, these claims stay."""
        return tuple(one for one in self.actions if one.owner is None)

    @property
    def armed(self) -> tuple[OwnClaim, ...]:
        return tuple(one for one in self.actions if one.owner is not None)


def decide(seen: Observation, fleet: Iterable[Assessed]) -> Deletion:
    """Return what is told of a deletion, and the claims that are to get, or lose, the cluster as their owner.

    A claim that a person made by hand (without our label) is never to go.
    """
    cluster, every = seen.cluster, tuple(fleet)
    claims = [claim for one in every for claim in _claims(one) if not claim.is_terminating]
    owned = [claim for claim in claims if cluster.uid in claim.owners]
    if cluster.spec.lifecycle.deletion_policy != "Delete" and not owned:
        return Deletion(None)
    ours = [claim for claim in claims if claim.is_labelled]
    if cluster.spec.has_ephemeral and not ours and not owned:
        return Deletion(None)  # a second word would keep nothing: what goes with the pods goes with the resource
    why_not = next(_keeping(cluster), None)
    actions = tuple(OwnClaim(one.name, one.uid, None) for one in owned if why_not or not one.is_labelled)
    if not why_not and not cluster.spec.lifecycle.paused:
        owner = _owner(cluster)
        actions += tuple(OwnClaim(one.name, one.uid, owner) for one in ours if cluster.uid not in one.owners)
    known = cluster.status.deletion
    is_as_before = known is not None and (known.waiting_for is None) == (why_not is None)
    status = DeletionStatus(
        bookies=sum(one.has_lived and bool(list(_claims(one))) for one in every),
        claims=len(ours),
        bytes=int(sum(one.size.requested for one in ours if one.size is not None)),
        going=sum(one.is_labelled for one in owned),
        since=known.since if known is not None and is_as_before else format_time(seen.now_ms),
        waiting_for=why_not,
    )
    return Deletion(status, actions)


def _keeping(cluster: Cluster) -> Iterator[str]:
    """Yield what keeps the claims."""
    if cluster.spec.lifecycle.deletion_policy != "Delete":
        # Told until the last one is taken back: it may be refused.
        yield "spec.lifecycle.deletionPolicy is Retain"
    if cluster.spec.lifecycle.deletion_protection:
        yield "spec.lifecycle.deletionProtection is true, which protects the claims as well: set it to false"
    said = cluster.annotations.get(names.DELETE_DATA, "")
    if not said or said != cluster.uid:
        found = f"names {said}, which is another one" if said else "is missing"
        yield (
            f"annotation {names.DELETE_DATA} {found}: to say it a second time, `kubectl -n {cluster.namespace} annotate"
            f" bookiecluster {cluster.name} {names.DELETE_DATA}={cluster.uid} --overwrite`"
        )
    if cluster.status.deletion is None:
        yield "the operator first tells what would be lost"


def _claims(one: Assessed) -> Iterator[ClaimFacts]:
    yield from (volume.claim for volume in one.case.volumes if volume.claim is not None and not volume.is_ephemeral)
    yield from one.case.other_claims


def _owner(cluster: Cluster) -> Manifest:
    """Return the owner that a claim gets. No controller: that is for whoever made it."""
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": cluster.name, "uid": cluster.uid}
