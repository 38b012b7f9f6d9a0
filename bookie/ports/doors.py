"""Where a boundary tells what it stopped. A *door* is a way in that strangers have: a connection, a request, a page.

Whatever a request raises ends at its door: it becomes an answer (EIO, 500, INTERNAL) or the end of that connection, is
counted, and told in a line that nobody can cause at will. Only storage, identity and broken invariants of our own state
end a node (docs/SECURITY.md, "What a stranger can do").
"""

from typing import Protocol


class Doors(Protocol):
    """Told by every boundary; kept by one node."""

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        """An error of ours, met while somebody was served. Never raises."""
        ...

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        """Somebody was turned away, or sent what nobody can answer."""
        ...


class NoDoors:
    """Counts nothing, tells nothing: for servers without a node."""

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        pass

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        pass
