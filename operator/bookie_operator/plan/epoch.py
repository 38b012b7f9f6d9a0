"""The epoch of a cluster: how often its leader changed. It travels with every grant, and a bookie refuses older ones.

It belongs to the cluster: it is kept in the cluster's status, next to the term that holds it, and is stored there
(under the precondition that nobody touched the resource) before the first grant that carries it. Where the status was
lost, it continues after the greatest epoch that the bookies have seen; an epoch that no operator can have given does
not count (`credible_epoch`).
"""

from collections.abc import Iterable

from bookie.ports.admin import OPERATOR_EPOCH_MAX, credible_epoch
from bookie_operator.model.status import OperatorStatus
from bookie_operator.plan.observation import Leadership, Term


def lead(term: Term, stored: OperatorStatus, seen: Iterable[int]) -> Leadership:
    """Return the leadership of `term` over a cluster whose status says `stored` and whose bookies have seen `seen`.

    At the greatest epoch the number stays: the stored record alone then tells leaders apart, and no grant is stuck.
    """
    known = credible_epoch(stored.epoch)
    latest = max((credible_epoch(epoch) for epoch in seen), default=0)
    is_ours = stored.leader == term.name and known > 0 and latest <= known
    epoch = known if is_ours else min(max(known, latest) + 1, OPERATOR_EPOCH_MAX)
    return Leadership(term.identity, epoch, term.is_held, term.name)
