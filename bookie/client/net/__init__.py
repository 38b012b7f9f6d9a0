"""This package reaches bookies: it knows which there are, connects to each, sends questions and matches the answers.

Theory of operation
-------------------
What may go wrong: a bookie is slow, silent or dead; the network cuts a connection, or holds it open and delivers
nothing; another process takes over a bookie's id, with other disks, while the old one lives on and does not know it.
This wing turns all of that into one of three words for each question: an answer, an error that the bookie gave, or
"unknown" (BookieUnavailable, RequestTimedOut). It decides nothing about ledgers and repeats nothing by itself: whether
to ask again, and whom, depends on quorums, which the wings above know.

1. *A question ends exactly once.* Whoever asked is called back later, never from within `send`, and never twice. Else
   a quorum could count one bookie as two.
2. *Silence is unknown, never no.* When a connection breaks or a deadline passes, what was sent may have happened or
   not. Only an answer proves absence.
3. *An answer belongs to its question.* Version 3 carries a number for that. Version 2 names the entry only, so that two
   questions about one entry cannot be told apart: the second waits for the answer to the first, however late. Else a
   late answer to a plain read could pass for proof that the bookie fenced the ledger.
4. *A connection stands for one process.* A registration carries the session of the process that made it. When another
   session registers the same id, every connection to the old process is dropped: what that one says about fences and
   entries is no longer the bookie's word. Our view of the registrations is late, so whoever relies on it for safety
   (a new ledger, an ensemble change, a recovery) asks the metadata store again: `BookieWatcher.look`.
5. *Everything has an end.* A dial has a deadline; after a failed one, questions fail at once until the back-off is
   over; questions in flight time out. In plain numbers: a question that has to wait for a connection is over after
   dial_timeout_ms + request_timeout_ms + one tick of 250 ms, by default 8.25 s, whatever the bookie does.
6. *Adds go a shorter way.* They are nearly all of the traffic, and the bytes of the answer "done" are known when the
   add is packed: it is recognised by a look into a dict (`add_frames`). Every other answer is parsed.

What it assumes of others: the network delivers bytes in order or ends the connection; the metadata store ends the
registration of a dead process with its session; callers set each question's number once and forget nothing that they
asked. What it offers: `ConnectionPool` (all ways to bookies), `BookieWatcher` (which there are), `BookieClient` (one
question to one bookie), `FreeSpace`. From the top: pool -> link -> dialer -> connection.
"""
