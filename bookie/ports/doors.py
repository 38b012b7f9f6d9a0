"""The port to which a boundary reports its errors. A *door* is a way in for strangers: a connection, a request, a page.

An error of a request ends at its door: it becomes an answer (EIO, 500, INTERNAL) or the end of that connection, is
counted, and logged in a line whose rate is limited. Only storage, identity and broken invariants of our own state end a
node (docs/SECURITY.md, "What a stranger can do").
"""

from typing import Protocol


class Doors(Protocol):
    """Takes the error reports of all boundaries of one node."""

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        """Report an error of ours that a stranger's request caused. Never raises."""
        ...

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        """Report a stranger that was refused, or that sent bytes without a possible answer."""
        ...


class NoDoors:
    """Ignores all reports: for servers without a node."""

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        pass

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        pass
