"""The storage engine: entries and facts about ledgers, kept through kill -9 and power cuts.

What may go wrong. The power goes between any two instructions. What was written and not synced is then there, or not,
or in part, in any order. A disk is full, fails, or comes back with an older state. And an answer that left before all
that was believed. Why nothing acknowledged is lost, in twelve lines (reasons: spec/storage.md#F1 to F9):

1.  An add puts its entry in the write cache and its record in the journal in one step that nothing can interrupt.
2.  Its completion hangs on the journal's group; only the sync of that group runs it, so an ack before sync has no code.
3.  A group is written after the sync before it returned: a valid record of a later group proves the earlier bytes.
4.  A checkpoint begins by setting the active cache aside and taking the journal's synced position, in one step.
5.  It writes and syncs entry logs, then index rows that point there, then facts, then the mark; one flush follows.
6.  Rows become durable in the order written, if at all: a durable mark means that all it covers is durable.
7.  The mark lives in the index that it describes: a disk that went back in time asks for its old journal, or refuses.
8.  Journal files go only when every partition's durable mark is past them.
9.  A failed checkpoint keeps its cache, its dirty facts and its mark; the next one finishes it before another begins.
10. A restart replays from the mark; doing it twice changes nothing; only the never-acknowledged tail may be torn.
11. Every record, log and location is checksummed: damage is an error (EIO, or no start), never "not here", never bytes.
12. After a failed sync nothing is known: the node stops. A full disk refuses new adds and keeps all that it has.

In other words: at every instant each acknowledged byte is in a synced journal at or after the durable mark, or in
synced logs that durable rows point at. Each step adds the new place before it gives up the old one. Entries that skip
the journal (BP-46, a bookie without one) are acknowledged from memory; there a stop that was not clean is a loss, for
`bookie.integrity` to mark; with touches the journal names their ledgers first, and the replay marks these alone.

And why nothing is denied: absence is a proof too (`bookie.quorum`), so "not here" is said only where nothing can have
been lost. Limbo, a row that cannot be read, a ledger directory that failed, a boot that has not proven its state: each
turns every "no", "nothing new" and "that is all" of the ledger into "unknown". Every path that says one of them
asks `EntryStore.is_in_doubt`, after the look, since the look may be what finds the damage.

What this assumes of others. A sync that returned keeps what was written before it, and so does one of a directory for
names. The index store keeps batches whole and in order, if at all (`ports.ordered_store`). One process has the
directories (a lock). Nobody gives an entry id to two different bodies: an add that comes again brings the same payload.
"""
