"""This package reads ledgers: single entries, ranges, the last confirmed entry, and new entries as the writer adds
them.

Theory of operation
-------------------
What may go wrong: a replica never got the entry (an ack quorum is smaller than a write set), lost it, damaged it, is
slow, or is in limbo and does not say; the writer may be in the middle of an entry; what we know of the metadata may be
old. A reader may be late, or get an error. It must never be given wrong bytes, and never be told "there is none" of an
entry that somebody acknowledged.

1. *One good answer is enough, since entries prove themselves.* Ledger id, entry id and digest are checked on each. A
   reply that fails the check is no answer at all: the next replica is asked, and the damaged one counts as unknown.
2. *"No such entry" takes every replica.* One that does not know, or is silent, could have it: then the error says that
   and not "no". (Recovery needs fewer denials, WQ-AQ+1, because it fences with each read; see `repair`.)
3. *Reads end at the LAC*, in a closed ledger at its last entry. Entries beyond it are not confirmed: a
   recovery may still decide that they are not in the ledger, and a reader would then have seen what never was.
4. *Any single LAC may be believed*, because the writer wrote it under its digest, and it only grows: it is a lower
   bound, and the greatest that was heard of counts. The id of the highest entry that a bookie stores is no LAC.
5. *How far is a ledger confirmed?* To hear of every LAC that the writer told to an ack quorum, the
   reader needs answers until fewer than AQ bookies are missing in each write set. In other words: with 3/3/2 two of
   three must answer; every pair that the writer can have told shares a bookie with them.
6. *Following a writer* asks bookies to hold the question until there is news. E-AQ+1 that have nothing leave no ack
   quorum that could have something: the round is over, and the next begins with another bookie.
7. *Slow is treated as lost, for a while.* A replica that is silent for `speculative_read_ms` gets company and is asked
   last from then on; its answer, if it comes first after all, is as good as any.
8. *Reading ahead is bounded* by entries and by bytes: it begins with few, doubles while they come, and lets the largest
   entry seen so far say how many more fit. What a batch does not bring is asked for entry by entry, so that the rules
   above hold for it.

What it assumes of others: bookies in limbo never deny; `net` ends every question; the metadata's last segment is the
writer's last ensemble or an older one, in which case the answers say less, never something wrong. From the top:
reader -> prefetch -> batch_read, entry_read; reader -> tailing, lac.
"""
