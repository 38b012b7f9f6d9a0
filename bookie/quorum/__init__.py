"""Replication rules as synchronous state machines; reads like the protocol's paper. Pure."""
