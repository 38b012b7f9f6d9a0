"""The only source of randomness in product code."""

from collections.abc import MutableSequence
from typing import Any, Protocol


class Entropy(Protocol):
    """Seeded in simulation, the operating system's outside."""

    def randrange(self, stop: int) -> int:
        """A number in 0..stop-1; `stop` > 0."""
        ...

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Reorder in place."""
        ...

    def token(self, size: int) -> bytes:
        """`size` random bytes."""
        ...
