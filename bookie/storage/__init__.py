"""The storage engine. Why nothing acknowledged is lost, in twelve lines:

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
"""
