"""Real randomness: the operating system's."""

import random
from collections.abc import MutableSequence
from typing import Any


class SystemEntropy:
    """`ports.entropy.Entropy` on os.urandom."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def shuffle(self, items: MutableSequence[Any]) -> None:
        self._random.shuffle(items)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)
