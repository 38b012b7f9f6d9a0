"""Turns an observation into a plan of what to do next. Pure: same observation, same plan; nothing is remembered.

**What may go wrong.** A grant lets a bookie whose data is gone take its identity back. Given too early or too often, it
turns a loss that could be repaired into one that cannot: the bookie says "I have nothing" where it could have said "I
do not know", and recovery believes it.

**The arithmetic.** An entry is acknowledged once `ackQuorum` bookies have it. If `dataless` of the fleet's bookies are
without their data, at least `ackQuorum - dataless` copies of each acknowledged entry are left. So

    dataless <= ackQuorum - 1             some bookie still has each entry          (spec/operator.md#G4)
    dataless + away <= ackQuorum - 1      and one that can be asked now             (spec/operator.md#G5)

In other words: with an ack quorum of two, one bookie may be empty, and none may be empty while another one is down. The
second line is waited for (`peerGrace`), because a bookie that is down comes back with its data; the first is never
passed over. While any bookie is without data, the disruption budget is 0: no drain may take another one away.

**One process per identity.** Whatever an older process of the same id acknowledges after the new life began has no mark
of that life. A grant therefore waits until each older process is proven to have ended (spec/operator.md#G12, decision
0017).

**Roll-outs.** A stop that nobody needs is asked for alone, and only beside a fleet in which everybody else is in full
service: that is the proof of the stop before as well, so nothing is remembered between two. The first bookie that does
not come back therefore halts it (spec/operator.md#Q1 to Q8).

**Crashes.** A pass remembers nothing. The grant is in the stored status before the bookie hears of it; whoever leads
next finds it there and sends the same one again. A bookie takes one grant only once, refuses those of an earlier leader
(the epoch travels with the grant), and refuses a grant for facts that are no longer true. So every step may be
repeated, and an operator may die between any two of them.

**What this package assumes of others.** The API server stores a status only over the version that was read. `execute`
keeps the order: budget, status, grant. A bookie fences and marks before it replaces its cookie (`bookie.integrity`).

    children    what the cluster should have, and what stands in the way        prune, doors, epoch
    stages      where one bookie stands, by its evidence and its past           claims: the marks on its claims
    gates       what must be open before a grant                                repair: the grants of this pass
    dependents  who may be out together: bookies of one node (spec.pools[].perNode)
    marks       whether ledgers that auto-recovery has marked speak against a stop
    rollout     whose pod is ended next so that it comes back as the spec says  revisions: which pods are older
    fleet       all of it, in the order of concerns: protect, build, remember, heal

Never here: a write to spec, a cookie, a deletion of a claim without every proof of `lost_node`, a grant with a closed
gate, a stop of a bookie that serves with one.
"""
