"""The bookie as a process: what it serves, in which states, and to whom.

`bookie.Bookie(options, world)` is one node's composition root; the same class runs on the real world and in the
simulator. Every answer of the protocol is decided in `processor`; nothing here opens a socket or reads a clock but
through ports.
"""
