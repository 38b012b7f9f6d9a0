"""The arithmetic of ensemble, write quorum and ack quorum, once, for bookies, clients, operator and audit.

An acknowledged entry is on at least AQ (ack quorum) bookies. In other words: AQ - 1 of them may lose it, and one copy
is left; and whoever asks so many bookies that fewer than AQ are not among them has asked one that holds it.
"""


def tolerance(ack_quorum: int) -> int:
    """How many bookies may be without their data at once, and every acknowledged entry still has a copy."""
    return ack_quorum - 1


def proof_of_absence(bookies: int, ack_quorum: int) -> int:
    """How many of `bookies` must say that they have no such entry, until no ack quorum of them can have it."""
    return bookies - tolerance(ack_quorum)
