"""This package adds entries: a writer, and below it the code that sends entries to an ensemble and counts the answers.

Theory of operation
-------------------
The promise: when `append` returns, the entry and all before it will be read for ever, after the crash of any AQ-1
bookies and of the writer itself. What may go wrong meanwhile: a bookie dies with what it acknowledged, or comes back
without it; an answer is lost; a connection breaks between two entries; the metadata store cannot be asked; another
client takes the ledger over at any moment and does not ask us.

1. *Confirmed in order.* An entry is confirmed when AQ bookies acknowledged it and every entry before it is confirmed.
   Recovery reads forward and ends the ledger at the first entry that no ack quorum can have: an entry behind a hole
   would be cut off.
2. *Why AQ is enough.* Recovery calls an entry absent when WQ-AQ+1 bookies of its write set say no. Of a confirmed
   entry at most WQ-AQ can say no, since AQ have it. In other words: with 3/3/2 two bookies have it, so that two can
   never deny it. The two numbers add up to WQ+1, hence any two such sets share a bookie.
3. *A failed bookie's acks are forgotten at once*, for all that is not confirmed: it may return without those entries.
   Another bookie takes its slot from LAC+1 on and is sent everything unconfirmed there.
4. *Metadata first, entries second.* A new bookie is sent entries only after the metadata names it, and until then
   nothing is confirmed (`hold`): an entry confirmed by a bookie that no reader knows of would be looked for elsewhere.
   The change is a compare-and-set on a ledger that is OPEN. A recovery writes IN_RECOVERY before it fences anybody: so
   the change of a writer that was taken over fails, and the writer ends. (The write-back of a recovery
   keeps its changes in memory until it closes the ledger by such a compare-and-set.)
5. *A fence is looked into, not believed.* A bookie that lost its memory fences ledgers to protect them. If the metadata
   still says OPEN, only this bookie is replaced. (With deferred sync the writer ends: its ensemble cannot change.)
6. *What an acknowledgement is worth* differs, and with it what is kept and who may be replaced: for ordinary ledgers
   acknowledgements confirm (`acks_confirm`); with deferred sync only syncs do (`syncs_confirm`). `Durability` in
   `appender` is the line between them; nothing else asks which it is.
7. *Memory is bounded.* Unconfirmed entries by the limit of the writer, the backlog of one slow bookie by
   `lag_bytes_max`: beyond it that bookie counts as failed. Otherwise one slow bookie could hold all that was ever sent.
8. *The error of a dead writer does not decide about its entries.* An unconfirmed entry may or may not be
   in the ledger: recovery decides, and keeps the entries that it finds.

What it assumes of others: bookies answer an add when it is on disk (without deferred sync) and refuse adds after a
fence; `net` delivers no answer of a seat that was given up; the metadata store's compare-and-set is one. From the top:
writer -> ensemble_change, acks_confirm, syncs_confirm -> appender -> seat.
"""
