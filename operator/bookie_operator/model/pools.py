"""What is wrong with a spec, asked for each pool: the pools of one cluster may differ in what a pod is made of."""

from collections.abc import Callable, Iterable

from bookie_operator.model.spec import BookieClusterSpec


def problems(spec: BookieClusterSpec, find: Callable[[BookieClusterSpec], Iterable[str]]) -> tuple[str, ...]:
    """Return the sentences that `find` has about the spec as it is for each pool, each once; with the names of the
    pools where it is not true of all."""
    shapes = spec.shapes()
    found: dict[str, list[str]] = {}
    for pool, shape in shapes:
        for sentence in dict.fromkeys(find(shape)):
            found.setdefault(sentence, []).append(pool)
    return tuple(
        sentence if len(pools) == len(shapes) else f"in pool {', '.join(pools)}: {sentence}"
        for sentence, pools in found.items()
    )
