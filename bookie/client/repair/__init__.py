"""This package repairs ledgers: it recovers those without an end, and moves replicas to other bookies.

Theory of operation
-------------------
*Recovery* decides where a ledger ends when its writer is gone, or only seems to be. What may go wrong: the writer is
alive and goes on adding; bookies are down, or lost entries and do not know it; several clients recover at once; any of
them dies half-way. All must come to one end, at or after every entry that was acknowledged. Hence an order:

1. *IN_RECOVERY is written before anybody is fenced.* A writer that wants to change its ensemble sees it and stops; it
   could otherwise escape to bookies that were not fenced.
2. *Fenced until no ack quorum is left.* In each write set fewer than AQ bookies may be missing; then the writer gets no
   acknowledgement any more. A bookie that denies everything is fenced all the same. One that cannot say counts as
   missing.
3. *Read on from the greatest LAC heard of, and fence with every read*: a bookie that missed the first round would
   otherwise deny an entry now and take it from the writer a moment later.
4. *WQ-AQ+1 denials prove absence.* An acknowledged entry is on AQ bookies, so that at most WQ-AQ can deny it. In other
   words: with 3/3/2 two noes, with 3/3/3 a single one. With less, recovery fails rather than guesses: the ledger stays
   IN_RECOVERY for whoever comes next.
5. *What is found is sent to its whole write set, and counts when an ack quorum has it*, even if only one bookie had it:
   once the ledger is closed behind it, it is promised like any other entry, and must be as safe.
6. *One compare-and-set chooses the end*, together with the ensembles of the write-back. Who loses it adopts the
   winner's. Repeating a recovery is always safe.

*Moving replicas* (`evacuation`) takes bookies out of ledgers. What may go wrong: the ledger changes meanwhile; the new
bookie is restarted and lost what it had acknowledged; another repairer throws our copies away as surplus. So copies are
read from whoever has them, verified and forced to disk first, and one transaction then names the new bookies, provided
that ledger, lives and lock are still those that it was done under. Before that transaction the old bookies are named,
after it the new ones hold everything: a crash at any point loses nothing and may be followed by another attempt. A
ledger without an end is recovered before, since nobody knows yet which entries it has.

What it assumes of others: bookies fence durably before they say so; a bookie that lost data is in limbo and does not
deny; Java's repairers respect the lock; `write` and `read` keep their own rules, which recovery uses as they are.

*Auto-recovery* (`daemon`) keeps replicas whole without a person. An `auditor`, elected among ours and Java's, marks
ledgers that lack replicas in Java's queue. Workers (`replication_worker`) take them from there: they fill in place what
a named bookie lacks, and replace a bookie only when it is lost. What may go wrong: a bookie is away for a restart, so
each has its delay; the metadata store was out, so nobody is believed lost while more than half are gone; a bookie
repairs itself, so whoever cannot say what it holds is waited for; a writer is alive, so it gets time to help itself.

*What is gone for good* a person gives up, by name and in writing: the end of a ledger that nobody can end
(`accepting_loss`), and entries of a closed one that nobody has (`declaring_lost`). What may go wrong: whoever is given
up comes back with its disks. So each is heard first, and must be gone, or must have begun anew, to the very last
moment. `reading_losses` tells what was given up, and who signed it.

From the top: daemon -> auditor, replication_worker -> evacuation -> recovery, replica_copier, replication_lock. Auditor
and worker share `membership` (who is lost), `holdings` (who holds what) and `marks` (the queue). `autorecovery` only
reads and switches.
"""
