"""A node's random numbers: each node has a generator, so that one node's draws never shift another's."""

import random
from collections.abc import MutableSequence
from typing import Any


class SimEntropy:
    """bookie.ports.entropy.Entropy from a seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def shuffle(self, items: MutableSequence[Any]) -> None:
        self._random.shuffle(items)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)
