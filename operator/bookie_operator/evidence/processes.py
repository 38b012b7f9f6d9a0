"""Which processes of one bookie id may still be running (decision 0017). Pure.

A process that lost its volumes may be followed by another of the same id only when it has ended: else what it still
acknowledges has no mark of the new life. A pod object that is gone proves nothing, for it may have been deleted by
force under a node that nobody reaches. A process is over when

    its kubelet said so       the last word on that very pod was: ended, every container terminated
    its node is gone          the Node object of that uid was deleted, or has the out-of-service taint and is not ready
    its kubelet must have     the node has been ready ever since, for the pod's termination grace and some more: a
                              kubelet that is in touch kills what the API server does not list
    a person says so          annotation bookie.dev/confirmed-ended with the pod's uid

and nothing else. What cannot be read (no right to read Nodes) proves nothing.
"""

from collections.abc import Mapping

from bookie.ports.admin import State
from bookie_operator.evidence.facts import BookieCase, NodeFacts
from bookie_operator.model.status import BookieStatus, Process
from bookie_operator.model.values import format_time, parse_time

# Beyond the termination grace: a kubelet that lost touch comes back, learns of the deletion and kills. Longer than the
# 50 s after which a node that says nothing is called unready, and than clocks may differ.
KUBELET_MARGIN_MS = 120_000
# Pods that nobody saw: their uid is not known, and so only a person can say that they ended.
UNSEEN = "unseen"
KEPT_MAX = 16


def follow(case: BookieCase, previous: BookieStatus | None, now_ms: int) -> tuple[Process, ...] | None:
    """Return the processes that may run now, oldest first: the live pod's, and those of pods that are gone without
    proof of their end.

    None while there is no record and nobody knows whether the bookie has lived: neither its report nor, of a new one,
    the metadata store's list.
    """
    known = previous.processes if previous is not None else None
    if known is None and case.report is None:
        if not _is_new(case, previous):
            return None
        known = _seen_before(case, previous)
    live = case.pod if case.pod is not None and case.pod.node else None
    found: dict[str, Process] = {one.pod_uid: one for one in known or ()}
    if _has_unseen(case, previous):
        found.setdefault(UNSEEN, Process(pod_uid=UNSEEN, gone_since=format_time(now_ms)))
    if live is not None and (live.uid not in found or not found[live.uid].node_uid):
        node = case.nodes.get(live.node)
        uid = node.uid if node is not None else ""
        found[live.uid] = Process(pod_uid=live.uid, node=live.node, node_uid=uid, grace_s=live.grace_s)
    is_live = live.uid if live is not None else ""
    rest = [_dated(one, now_ms) if one.pod_uid != is_live else one for one in found.values()]
    rest = [one for one in rest if one.pod_uid not in case.ended]
    rest = [one for one in rest if one.pod_uid == is_live or not is_over(one, case.nodes, now_ms)]
    if len(rest) > KEPT_MAX:
        # More than a person can follow; which they were does not matter, only that nobody proved their end.
        rest = [Process(pod_uid=UNSEEN, gone_since=format_time(now_ms)), *rest[-KEPT_MAX + 1 :]]
    return tuple(rest)


def is_over(one: Process, nodes: Mapping[str, NodeFacts | None], now_ms: int) -> bool:
    """Return True when the node of a pod that is gone proves that the pod's process ended."""
    if not one.node or one.node not in nodes or one.gone_since is None:
        return False
    node = nodes[one.node]
    if node is None or (one.node_uid and node.uid != one.node_uid):
        return True
    if node.is_out_of_service and not node.is_ready:
        return True
    due_ms = _due_ms(one, node)
    return due_ms is not None and now_ms >= due_ms


def _due_ms(one: Process, node: NodeFacts) -> int | None:
    """Return when the pod's node will have been ready for long enough, if it stays so; None: it is not ready, or
    nobody knows whether it is the same node."""
    if one.gone_since is None or not one.node_uid or node.uid != one.node_uid or not node.is_ready:
        return None
    in_touch_since = max(parse_time(one.gone_since), node.ready_since_ms)
    return in_touch_since + one.grace_s * 1000 + KUBELET_MARGIN_MS


def doubts(case: BookieCase, processes: tuple[Process, ...] | None) -> tuple[str, ...]:
    """Return one sentence for each older process that may still run."""
    live = case.pod.uid if case.pod is not None else ""
    found = (Process(pod_uid=UNSEEN),) if processes is None else processes
    return tuple(_doubt(case, one) for one in found if one.pod_uid != live)


def _doubt(case: BookieCase, one: Process) -> str:
    if one.pod_uid == UNSEEN:
        return (
            f"a pod of {case.name} that this operator never saw may still run: make sure that none does, then annotate"
            f" the BookieCluster with bookie.dev/confirmed-ended={unseen(case)}"
        )
    node = one.node or "an unknown node"
    how = "" if one.node in case.nodes else " (nodes cannot be read: chart value nodes.read)"
    gone = f"pod {case.name} (uid {one.pod_uid}) on node {node} went away without its kubelet's word that it ended{how}"
    there = case.nodes.get(one.node)
    due_ms = _due_ms(one, there) if there is not None else None
    if due_ms is not None:
        return (
            f"{gone}: its node is ready, and counts as proof at {format_time(due_ms)} if it stays so; or make sure that"
            f" it does not run and annotate the BookieCluster with bookie.dev/confirmed-ended={one.pod_uid}"
        )
    return (
        f"{gone}: bring the node back (ready for the termination grace and two minutes more), or power it off and"
        f" delete or taint the Node (node.kubernetes.io/out-of-service), or make sure that it does not run and annotate"
        f" the BookieCluster with bookie.dev/confirmed-ended={one.pod_uid}"
    )


def unseen(case: BookieCase) -> str:
    """Return the word by which a person confirms that no unseen pod of this bookie runs. It fits this incarnation
    only."""
    return f"{UNSEEN}-{case.name}-{case.report.incarnation if case.report is not None else 0}"


def _has_unseen(case: BookieCase, previous: BookieStatus | None) -> bool:
    """Return True when a pod of this id may have run while no operator looked.

    Either there is no record of a bookie that has lived and does not serve now; or its pod was replaced while no
    operator watched, and some process registered meanwhile: the boot epoch counts registrations.
    """
    report = case.report
    if report is None or report.state.serves:
        return False
    if previous is None or previous.processes is None:
        return report.incarnation > 0
    waits = report.state in (State.WAITING_GRANT, State.HELD, State.STARTING)
    return waits and case.was_replaced_unwatched and report.boot_epoch > previous.boot_epoch


def _is_new(case: BookieCase, previous: BookieStatus | None) -> bool:
    """Return True when nothing says that the bookie ever lived, and its cookie and registration were looked for."""
    if previous is not None and (previous.has_lived or previous.incarnation > 0):
        return False
    claims = (*(volume.claim for volume in case.volumes), *case.other_claims)
    is_marked = any(claim is not None and claim.marks is not None for claim in claims)
    return case.is_listed and case.member is None and not is_marked


def _seen_before(case: BookieCase, previous: BookieStatus | None) -> tuple[Process, ...]:
    """Return the pod that the last pass saw on a node, where it is gone now: nobody followed it yet."""
    if previous is None or previous.pod_uid is None or previous.node is None:
        return ()
    is_live = case.pod is not None and case.pod.uid == previous.pod_uid
    return () if is_live else (Process(pod_uid=previous.pod_uid, node=previous.node),)


def _dated(one: Process, now_ms: int) -> Process:
    return one if one.gone_since is not None else one.model_copy(update={"gone_since": format_time(now_ms)})
