"""All children of one cluster, in the order in which they are applied."""

from bookie_operator.model import assignment
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources import (
    autorecovery,
    common,
    metadata_job,
    pod_template,
    services,
    settings,
    stateful_set,
)


def before_metadata(
    cluster: Cluster, max_unavailable: int, evictable: str = "", *, expected: int = 0
) -> tuple[common.Manifest, ...]:
    """Return the children that need no metadata: identity, settings, addresses, protection. `expected`: as in
    `services.disruption_budget`."""
    # Pools that say nothing of their own read the fleet's settings: one content, one object.
    shapes = [cluster, *(cluster.of(name) for name, _ in cluster.spec.shapes())]
    shapes += [cluster.of(name) for name in cluster.withheld]
    read = {settings.name(one): settings.config_map(one) for one in shapes}
    children = [services.service_account(cluster), *read.values(), services.headless(cluster)]
    if cluster.spec.disruption.pdb:
        children.append(services.disruption_budget(cluster, max_unavailable, evictable, expected=expected))
    return tuple(common.marked(child) for child in children)


def initializer(cluster: Cluster, image: str) -> common.Manifest:
    return common.marked(metadata_job.metadata_job(cluster, image))


def stateful_sets(cluster: Cluster, pools: tuple[BookiePool, ...], image: str) -> tuple[common.Manifest, ...]:
    """Return those of the spec's pools. That of a pool that was taken out of the spec stays as it is."""
    return tuple(
        common.marked(stateful_set.stateful_set(cluster.of(pool.name), pool.name, pool.zone, pool.replicas, image))
        for pool in pools
        if pool.is_in_spec
    )


def after_bookies(cluster: Cluster, image: str) -> tuple[common.Manifest, ...]:
    """Return the children that need a fleet: auto-recovery, where it is asked for."""
    return (common.marked(autorecovery.deployment(cluster, image)),) if cluster.spec.autorecovery.enabled else ()


def template_problems(cluster: Cluster, pools: tuple[BookiePool, ...], image: str) -> tuple[str, ...]:
    """Return one sentence for each part of spec.podTemplate that the operator's own pod template does not allow."""
    found = (
        pod_template.problems(one, stateful_set.template(one, pool.name, pool.zone, image))
        for pool in pools
        for one in (cluster.of(pool.name),)
    )
    return tuple(dict.fromkeys(sentence for sentences in found for sentence in sentences))


def everything(cluster: Cluster, image: str) -> tuple[common.Manifest, ...]:
    """Return the children of a quiet, healthy cluster, for `bookie-operator render`."""
    job = (initializer(cluster, image),) if cluster.spec.metadata_service.initialize == "IfAbsent" else ()
    quiet = before_metadata(cluster, cluster.spec.disruption.max_unavailable)
    sets = stateful_sets(cluster, assignment.assign(cluster.spec, {}), image)
    return (*quiet, *job, *sets, *after_bookies(cluster, image))
