"""Bytes to messages and back: framing, both protocol versions, entry envelopes, digests. Pure."""
