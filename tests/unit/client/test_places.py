"""Who may fill a bookie now, and who is called next."""

from bookie.base.ids import BookieId, LedgerId
from bookie.client.repair.places import Places

ONE, OTHER = BookieId("one"), BookieId("other")


def test_one_bookie_has_all_places_but_one_and_who_waits_is_called_in_order() -> None:
    places = Places(3)
    assert [places.enter(ONE, LedgerId(each)) for each in range(5)] == [True, True, False, False, False]
    assert places.enter(OTHER, LedgerId(9))
    assert [places.is_waiting(LedgerId(each)) for each in range(5)] == [False, False, True, True, True]

    assert places.leave(OTHER) is None
    assert places.leave(ONE) == 2
    assert not places.is_waiting(LedgerId(2))
    assert places.enter(ONE, LedgerId(2))
    assert not places.enter(ONE, LedgerId(7))
    assert [places.leave(ONE), places.leave(ONE)] == [3, 4]


def test_a_worker_with_one_place_uses_it() -> None:
    places = Places(1)

    assert places.enter(ONE, LedgerId(1))
    assert not places.enter(ONE, LedgerId(2))


def test_who_is_forgotten_is_not_called() -> None:
    places = Places(2)
    places.enter(ONE, LedgerId(1))
    places.enter(ONE, LedgerId(2))

    places.forget_waiting()

    assert not places.is_waiting(LedgerId(2))
    assert places.leave(ONE) is None
    assert places.enter(ONE, LedgerId(3))
