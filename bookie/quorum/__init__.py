"""Replication rules as synchronous state machines: facts in, facts out. No clock, no socket, no chance, no waiting.

What may go wrong. A writer stores each entry on the WQ bookies of its write set, and tells its application "stored"
once AQ of them have said so. Then the writer dies, or hangs and comes back later. Some bookies are silent, and a silent
bookie may hold anything. Somebody else must now say where the ledger ends. If it ends too early, an acknowledged entry
is lost. If the old writer can still get AQ answers afterwards, an entry behind the end is acknowledged, and lost too.

One number answers both: WQ-AQ+1, the negative quorum. An acknowledged entry is on AQ bookies of its write set. In
other words: set any WQ-AQ+1 of the WQ aside, and AQ - 1 are left, one too few to have acknowledged anything.

A negative. WQ-AQ+1 bookies of the write set say "I do not have it". Then at most AQ - 1 can have it: it was never
    acknowledged, and the ledger may end before it. Silence, an error, or "I may have lost it" (limbo) is none of them:
    counted as a no, it would end the ledger before an entry that lies just there. (`reads`, `recovery`)
A fence. WQ-AQ+1 bookies of a write set refuse normal adds for ever. Then the old writer finds at most AQ - 1 that
    take one. Nobody knows which entry it sends next, so every write set of the last ensemble needs its share; seen
    from the other side, no write set may have AQ members that are not known to be fenced. (`coverage`)
In this order. A "no" from before the fence says nothing about the moment after it, so fencing comes first. And reads of
    a recovery fence as well: a bookie that the fence missed could say no, and then take the very entry. (`recovery`)
Written back. What a recovery finds may be on one bookie only. It counts as part of the ledger once AQ bookies of its
    write set have it again: readers will be promised it, whoever loses a disk next. (`recovery`, `adds`)
The LAC. An entry is confirmed when it and all before it are acknowledged. It is the writer that knows, and says so in
    later entries; whoever repeats it, it stays true. So the greatest LAC that is heard is where a recovery begins to
    read, and never where it ends. (`lac`; with deferred sync, where an ack proves nothing yet, `synced`)
What it costs. k bookies of a write set that cannot say leave WQ - k that can; that is enough while k < AQ. With AQ = 1
    a single one of them stops a recovery, and must: the only copy may be there.

What this assumes of others. A bookie never says no to what it had (`bookie.storage`, `bookie.integrity`), its fence is
durable before any answer to it (`bookie.server`), what is read is what the writer wrote (the digest, checked by the
driver), and one compare-and-set of the metadata decides between two recoveries, or a recovery and a writer.

The rest is who holds what: `schedule` (which slots hold an entry), `shares` (how many entries a slot holds), `ensemble`
and `placement` (who comes next), `leaving` (what must stand elsewhere first). The drivers are in `bookie.client`.
Rules: spec/bp46.md#R2; spec/wire.md#W51 to W58.
"""
