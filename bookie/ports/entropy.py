"""The only source of randomness in product code."""

from collections.abc import MutableSequence
from typing import Any, Protocol


class Entropy(Protocol):
    """Random numbers: from a seed in the simulation, from the operating system otherwise."""

    def randrange(self, stop: int) -> int:
        """Return a number in 0..stop-1; `stop` > 0."""
        ...

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Reorder in place."""
        ...

    def token(self, size: int) -> bytes:
        """Return `size` random bytes."""
        ...
