"""Computes which slots of an ensemble hold an entry: round robin striping.

Rule: CONFORMANCE.md#P7, P8. A *slot* is an index into the ensemble; the bookie in it may change.
"""

from dataclasses import dataclass, field

from bookie.base import errors, quorums
from bookie.base.ids import EntryId


@dataclass(frozen=True, slots=True)
class Schedule:
    """The three quorum sizes of a ledger and what follows from them. Raises BadInput unless E >= WQ >= AQ >= 1."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    write_sets: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.ensemble_size >= self.write_quorum >= self.ack_quorum >= 1:
            raise errors.BadInput(
                f"quorums {self.ensemble_size}/{self.write_quorum}/{self.ack_quorum} are not usable: "
                "ensemble size >= write quorum >= ack quorum >= 1 must hold"
            )
        sets = tuple(
            tuple((start + k) % self.ensemble_size for k in range(self.write_quorum))
            for start in range(self.ensemble_size)
        )
        object.__setattr__(self, "write_sets", sets)

    def write_set(self, entry_id: EntryId) -> tuple[int, ...]:
        """Return the slots that hold `entry_id` (>= 0), in the order in which readers ask them."""
        return self.write_sets[entry_id % self.ensemble_size]

    @property
    def negative_quorum(self) -> int:
        """Return WQ-AQ+1: this many explicit negatives leave no room for an ack quorum (CONFORMANCE.md#B6, B16)."""
        return quorums.proof_of_absence(self.write_quorum, self.ack_quorum)
