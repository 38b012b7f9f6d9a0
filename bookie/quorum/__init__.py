"""Replication rules as synchronous state machines: facts in, facts out.

Reads like the replication protocol: `schedule` (who holds an entry), `coverage` (when is a set of answers enough),
`adds`, `reads`, `lac`, `recovery` (the four conversations), `ensemble` and `placement` (who comes next). Nothing here
waits, reads a clock, draws a random number or knows a socket; the drivers are in `bookie.client`.
"""
