"""The arithmetic of quorums, against counting."""

from itertools import combinations

import pytest

from bookie.base import quorums

SHAPES = [(wq, aq) for wq in range(1, 6) for aq in range(1, wq + 1)]


@pytest.mark.parametrize(("write_quorum", "ack_quorum"), SHAPES)
def test_so_many_may_lose_their_data_and_not_one_more(write_quorum: int, ack_quorum: int) -> None:
    bookies = range(write_quorum)

    def survives(lost: int) -> bool:
        return all(
            set(acked) - set(gone)
            for acked in combinations(bookies, ack_quorum)
            for gone in combinations(bookies, lost)
        )

    assert survives(quorums.tolerance(ack_quorum))
    assert not survives(quorums.tolerance(ack_quorum) + 1)


@pytest.mark.parametrize(("write_quorum", "ack_quorum"), SHAPES)
def test_so_many_denials_leave_no_room_for_an_ack_quorum_and_not_one_fewer(write_quorum: int, ack_quorum: int) -> None:
    needed = quorums.proof_of_absence(write_quorum, ack_quorum)

    assert write_quorum - needed < ack_quorum
    assert write_quorum - (needed - 1) >= ack_quorum
