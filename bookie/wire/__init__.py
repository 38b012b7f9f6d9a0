"""Bytes to messages and back: framing, both protocol versions, entry envelopes, digests. Pure.

What a peer may see is decided here and nowhere else. Must never do I/O, read a clock or log.
"""
