"""Answers that are not taken: while there is too much of them, who takes none is cut off, and nobody else."""

from bookie.base.units import KIB, MIB, NS_PER_S
from bookie.server.unsent import Unsent

LIMIT = 10 * MIB


class Debtor:
    def __init__(self, untaken: int = 0) -> None:
        self.untaken_bytes = untaken
        self.taken_bytes = 0
        self.reason = ""

    def take(self, size: int) -> None:
        self.untaken_bytes -= size
        self.taken_bytes += size

    def cut(self, reason: str) -> None:
        self.reason = reason
        self.untaken_bytes = 0


def with_debts(*sizes: int) -> tuple[Unsent, list[Debtor]]:
    unsent, debtors = Unsent(LIMIT), [Debtor(size) for size in sizes]
    for debtor in debtors:
        unsent.note(debtor, debtor.untaken_bytes)
    return unsent, debtors


def test_below_half_of_the_limit_nobody_is_cut_however_long_he_takes_nothing() -> None:
    unsent, (deaf,) = with_debts(LIMIT // 2)

    for second in range(1000):
        unsent.look(second * NS_PER_S)

    assert not unsent.is_full
    assert not deaf.reason


def test_from_half_of_it_on_who_takes_nothing_is_cut_later() -> None:
    """Few reads run at once there: clients that never take their answers would have it so for ever."""
    unsent, (deaf, slow) = with_debts(LIMIT // 2, 4 * MIB)

    for second in range(30):
        unsent.look(second * NS_PER_S)
        slow.take(64 * KIB)
        assert not deaf.reason, second
    unsent.look(30 * NS_PER_S)

    assert deaf.reason
    assert not slow.reason


def test_beyond_it_who_takes_nothing_is_cut_and_who_takes_is_not() -> None:
    unsent, (deaf, slow) = with_debts(LIMIT, 4 * MIB)
    assert unsent.is_full

    for tick in range(6):
        unsent.look(tick * NS_PER_S // 2)
        slow.take(32 * KIB)

    assert deaf.reason
    assert not slow.reason
    assert not unsent.is_full
    assert unsent.total_bytes == slow.untaken_bytes + 32 * KIB  # as last looked


def test_who_took_much_once_must_go_on_taking() -> None:
    unsent, (deaf,) = with_debts(2 * LIMIT)
    unsent.look(0)
    deaf.take(MIB)

    unsent.look(2 * NS_PER_S)
    assert not deaf.reason
    unsent.look(4 * NS_PER_S)

    assert deaf.reason


def test_who_always_takes_the_little_he_has_is_not_cut() -> None:
    unsent, (many, tail) = with_debts(2 * LIMIT, KIB)
    for second in range(0, 20, 2):
        unsent.look(second * NS_PER_S)
        many.take(64 * KIB)
        tail.taken_bytes += KIB  # and has the next answer

    assert (many.reason, tail.reason) == ("", "")


def test_time_in_which_there_was_room_is_not_counted() -> None:
    unsent, (other, idle) = with_debts(LIMIT, KIB)
    unsent.look(0)
    other.take(LIMIT)
    unsent.look(NS_PER_S)

    other.untaken_bytes = 2 * LIMIT
    unsent.note(other, other.untaken_bytes)
    unsent.look(100 * NS_PER_S)
    assert idle.reason == other.reason == ""


def test_who_has_less_left_than_must_be_taken_needs_to_take_no_more_than_that() -> None:
    unsent, (deaf, nearly) = with_debts(2 * LIMIT, KIB)
    unsent.look(0)
    nearly.take(KIB)

    unsent.look(3 * NS_PER_S)

    assert deaf.reason
    assert not nearly.reason


def test_room_is_counted_again_when_answers_are_taken() -> None:
    unsent, (one, two) = with_debts(6 * MIB, 6 * MIB)
    assert unsent.is_full

    one.take(6 * MIB)
    unsent.look(0)

    assert not unsent.is_full
    assert unsent.total_bytes == two.untaken_bytes


def test_who_takes_nothing_is_cut_until_there_is_room_for_many_answers() -> None:
    """Cut one by one, each made room for the next that took nothing: an honest client waited for all of them."""
    unsent, deaf = with_debts(*[MIB] * 9, 2 * MIB)

    for tick in range(6):
        unsent.look(tick * NS_PER_S // 2)

    assert unsent.total_bytes == LIMIT // 2
    assert deaf[-1].reason  # the largest first
    assert sum(bool(debtor.reason) for debtor in deaf) == 5
