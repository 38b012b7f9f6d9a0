"""The arithmetic of ensemble, write quorum and ack quorum, once, for bookies, clients, operator and audit.

An acknowledged entry is on at least AQ (ack quorum) bookies. In other words: when AQ - 1 of them lose it, one copy is
left; and a client that asks all bookies but AQ - 1 has asked at least one that holds the entry.
"""


def tolerance(ack_quorum: int) -> int:
    """Return how many bookies may be without their data at once while every acknowledged entry keeps a copy."""
    return ack_quorum - 1


def proof_of_absence(bookies: int, ack_quorum: int) -> int:
    """Return how many of `bookies` must deny an entry before no ack quorum of them can have it."""
    return bookies - tolerance(ack_quorum)
