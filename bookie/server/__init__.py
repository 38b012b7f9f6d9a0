"""The bookie as a process: what it serves, in which states, and to whom.

What may go wrong. An answer cannot be taken back: a client counts it towards a quorum, and somebody's "stored" or a
ledger's end stands on it. So here it is decided when an answer may leave, and how much strangers may cost us before.

Not before it is true. The answer to an add leaves after the sync that covers it (where the settings keep data out of
    the journal, after the one that covers the ledger's key: then each stop that is not clean counts as a loss), the
    answer to a fencing read after the fence is durable, "no such entry" included: a client takes that as fenced, and a
    crash right after would unfence it. Both hang on a completion of the store, which nothing else calls. Deferred sync
    is the one exception, in a place of its own, and only for a client that knows which life answered: in other words,
    a client that counts an answer of our memory must be able to see that the memory is gone. (`processor`, `adds`)
Never softer than the store. What may be missing is "unknown", on every path; the store is asked after the look, for a
    disk may fail in between. A short list and "nothing new" deny something as well. (`reads`, `lists`)
An error that says what to do. A writer gives up at EFENCED and EUA, and goes on with another bookie at anything else.
    So a fence of ours that only stands for a loss is EIO to a writer. A bug while serving is EIO, too: it proves
    nothing. (`adds`, `boundary`, `doors`)
Bounded by us, not by clients. Requests that are not answered, answers that are not sent, frames that have begun, reads
    that wait, connections of one address: each has a bound, and the client that reaches it pays for it. The first
    answer to "too much" is to read no sockets for a while, because a refusal makes a writer change its ensemble; then
    refuse; at the end cut off. (`admission`, `connection`, `unfinished`, `unsent`, `readers`, `connections`)
Only while we are this bookie. Nothing is served before integrity has said so, and nothing after another process of this
    id was seen. Registration comes after the data port, and goes before it. (`bookie`, `registration`, `lease`)

What this assumes of others. Completions run on the loop, once, after durability (`bookie.storage`); the session's end
is told by the metadata store, sooner or later; a client that asked for our life counts our memory for that life only.

`bookie.Bookie(options, world)` is one node's composition root, the same class in the real world and in the simulator:
nothing here opens a socket or reads a clock but through ports. Answers, row by row: docs/PROTOCOL.md.
"""
