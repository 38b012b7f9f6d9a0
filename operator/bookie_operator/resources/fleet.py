"""All children of one cluster, in the order in which they are applied."""

from bookie_operator.model import assignment
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources import common, metadata_job, services, settings, stateful_set


def before_metadata(cluster: Cluster, max_unavailable: int) -> tuple[common.Manifest, ...]:
    """Return the children that need no metadata: identity, settings, addresses, protection."""
    children = [services.service_account(cluster), settings.config_map(cluster), services.headless(cluster)]
    if cluster.spec.disruption.pdb:
        children.append(services.disruption_budget(cluster, max_unavailable))
    return tuple(common.marked(child) for child in children)


def initializer(cluster: Cluster, image: str) -> common.Manifest:
    return common.marked(metadata_job.metadata_job(cluster, image))


def stateful_sets(cluster: Cluster, pools: tuple[BookiePool, ...], image: str) -> tuple[common.Manifest, ...]:
    return tuple(
        common.marked(stateful_set.stateful_set(cluster, pool.name, pool.zone, pool.replicas, image)) for pool in pools
    )


def everything(cluster: Cluster, image: str) -> tuple[common.Manifest, ...]:
    """Return the children of a quiet, healthy cluster, for `bookie-operator render`."""
    job = (initializer(cluster, image),) if cluster.spec.metadata_service.initialize == "IfAbsent" else ()
    quiet = before_metadata(cluster, cluster.spec.disruption.max_unavailable)
    return (*quiet, *job, *stateful_sets(cluster, assignment.assign(cluster.spec, {}), image))
