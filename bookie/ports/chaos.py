"""Seeded self-sabotage: product code may offer a rare path to the simulator."""

from typing import Protocol


class Chaos(Protocol):
    """False outside simulation, always; so a branch on it must be one that could be taken anyway."""

    def sometimes(self, name: str) -> bool:
        """True now and then in simulation. `name` appears in the trace."""
        ...


class Calm:
    """No chaos: the real world."""

    def sometimes(self, name: str) -> bool:
        return False
