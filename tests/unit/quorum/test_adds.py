"""PendingAdds: the rules one by one, then against a model that recomputes everything from the history."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base.ids import EntryId
from bookie.quorum.adds import PendingAdd, PendingAdds
from bookie.quorum.schedule import Schedule


def adds_of(shape: tuple[int, int, int] = (3, 3, 2)) -> PendingAdds[PendingAdd]:
    return PendingAdds(Schedule(*shape))


def push(adds: PendingAdds[PendingAdd], size: int = 1) -> PendingAdd:
    add = PendingAdd()
    adds.push(add, size)
    return add


def ids(adds: Iterable[PendingAdd]) -> list[int]:
    return [add.entry_id for add in adds]


def test_an_entry_is_confirmed_exactly_at_its_ack_quorum() -> None:
    """CONFORMANCE.md#B8."""
    adds = adds_of()
    add = push(adds, 10)

    first, second, third = (ids(adds.ack([add], slot)) for slot in range(3))

    assert (first, second, third) == ([], [0], [])
    assert adds.lac == 0


def test_a_bookie_that_acknowledges_twice_counts_once() -> None:
    adds = adds_of()
    add = push(adds, 10)

    adds.ack([add], 1)
    adds.ack([add], 1)

    assert adds.lac == -1


def test_confirmations_come_in_id_order_whatever_the_order_of_acks() -> None:
    """CONFORMANCE.md#P15."""
    adds = adds_of()
    zero, one, two = (push(adds) for _ in range(3))

    for add in (two, one):
        assert not adds.ack([add], 0)
        assert not adds.ack([add], 1)
    adds.ack([zero], 0)
    confirmed = adds.ack([zero], 2)

    assert ids(confirmed) == [0, 1, 2]


def test_an_entry_waits_for_those_before_it_also_behind_one_that_is_confirmed() -> None:
    """CONFORMANCE.md#P15."""
    adds = adds_of()
    zero, one, two = (push(adds) for _ in range(3))
    for slot in range(2):
        adds.ack([two], slot)

    confirmed = [add for slot in range(2) for add in adds.ack([zero], slot)]

    assert ids(confirmed) == [0]
    assert ids(adds.ack([one], 0)) == []


def test_the_answers_of_one_turn_count_together() -> None:
    adds = adds_of()
    pushed = [push(adds) for _ in range(5)]

    assert ids(adds.ack(pushed[1:], 0)) == []
    assert ids(adds.ack(pushed[:4], 1)) == []
    assert ids(adds.ack(pushed, 2)) == [0, 1, 2, 3, 4]


def test_the_length_counts_all_payload_up_to_and_including_the_entry() -> None:
    """Wire 6.1."""
    adds = PendingAdds[PendingAdd](Schedule(1, 1, 1), start=EntryId(4), length=100)

    lengths = [push(adds, size).length for size in (3, 0, 7)]

    assert lengths == [103, 103, 110]


def test_acks_of_a_failed_slot_no_longer_count() -> None:
    """Wire 10.2, ensemble change, step 4."""
    adds = adds_of()
    zero, one = push(adds), push(adds)
    adds.ack([zero], 0)
    adds.ack([one], 0)
    adds.ack([one], 1)

    adds.drop(0)

    assert ids(adds.ack([zero], 1)) == []
    assert ids(adds.ack([zero], 2)) == [0]
    assert adds.lac == 0
    assert ids(adds.ack([one], 2)) == [1]


def test_a_new_bookie_is_sent_every_unconfirmed_entry_of_its_slot_and_no_other() -> None:
    adds = adds_of((4, 2, 2))
    pushed = [push(adds) for _ in range(6)]
    for slot in adds.write_set(pushed[0]):
        adds.ack(pushed[:1], slot)

    adds.drop(1)

    assert ids(adds.missing(1)) == [1, 4, 5]


def test_a_new_bookie_is_also_sent_what_an_ack_quorum_has_and_only_waits_for_its_turn() -> None:
    """CONFORMANCE.md#P19: its segment begins behind the LAC, and has every entry on the whole write set."""
    adds = adds_of()
    _, waiting = push(adds), push(adds)
    for slot in (0, 1):
        adds.ack([waiting], slot)

    adds.drop(2)

    assert ids(adds.missing(2)) == [0, 1]


def test_nothing_is_confirmed_while_an_ensemble_change_is_written() -> None:
    adds = adds_of((1, 1, 1))
    add = push(adds)

    adds.hold()

    assert not adds.ack([add], 0)
    assert adds.lac == -1
    assert ids(adds.release()) == [0]


def test_failing_takes_everything_off_and_undoes_its_length() -> None:
    """Wire 10.2, step 6; 10.7, step 1."""
    adds = adds_of((1, 1, 1))
    adds.ack([push(adds, 5)], 0)
    push(adds, 7)

    failed = adds.fail_all()

    assert ids(failed) == [1]
    assert (adds.length, adds.lac, len(adds)) == (5, 0, 0)


def test_writing_goes_on_as_long_as_every_write_set_keeps_an_ack_quorum() -> None:
    adds = adds_of((3, 3, 2))

    assert adds.can_complete_without([1])
    assert not adds.can_complete_without([0, 1])
    assert not adds_of((4, 2, 2)).can_complete_without([3])


@dataclass
class Model:
    """The history; everything else follows from it by the words of the protocol."""

    shape: tuple[int, int, int]
    acks: list[set[int]] = field(default_factory=list)
    confirmed: int = -1
    held: bool = False

    def confirm(self) -> list[int]:
        newly = []
        while (
            not self.held
            and self.confirmed + 1 < len(self.acks)
            and len(self.acks[self.confirmed + 1]) >= self.shape[2]
        ):
            self.confirmed += 1
            newly.append(self.confirmed)
        return newly


# Never a short one: hypothesis makes most lists a handful long, in which hardly an entry gets as far as its quorum.
steps = st.lists(
    st.tuples(
        st.sampled_from(["push", "ack", "ack", "ack", "drop", "hold", "release"]),
        st.integers(0, 99),
        st.integers(0, 9),
    ),
    min_size=20,
    max_size=60,
)
# Each as often as any other: drawn one number after the other, most ack quorums were 1, and one too small went unseen.
shapes = st.sampled_from([(e, w, a) for e in range(1, 6) for w in range(1, e + 1) for a in range(1, w + 1)])


@settings(max_examples=150, deadline=None)
@given(shapes, steps)
def test_any_history_confirms_what_the_model_confirms(
    shape: tuple[int, int, int], history: list[tuple[str, int, int]]
) -> None:
    schedule = Schedule(*shape)
    adds: PendingAdds[PendingAdd] = PendingAdds(schedule)
    pushed: list[PendingAdd] = []
    model = Model(shape)

    for step, entry, choice in history:
        confirmed: list[int] = []
        expected: list[int] = []
        slot = choice % shape[0]
        match step:
            case "push":
                pushed.append(push(adds))
                model.acks.append(set())
            case "ack" if pushed:
                add = pushed[entry % len(pushed)]
                slot = adds.write_set(add)[choice % shape[1]]
                if add.entry_id > model.confirmed:
                    model.acks[add.entry_id].add(slot)
                confirmed, expected = ids(adds.ack([add], slot)), model.confirm()
            case "drop":
                adds.drop(slot)
                for unconfirmed in model.acks[model.confirmed + 1 :]:
                    unconfirmed.discard(slot)
                assert ids(adds.missing(slot)) == [
                    entry_id
                    for entry_id in range(model.confirmed + 1, len(pushed))
                    if slot in schedule.write_set(EntryId(entry_id))
                ]
            case "hold":
                adds.hold()
                model.held = True
            case "release":
                model.held = False
                confirmed, expected = ids(adds.release()), model.confirm()
            case _:
                pass

        assert confirmed == expected
        assert adds.lac == model.confirmed
        assert len(adds) == len(pushed) - model.confirmed - 1
