"""How many connections there may be, from where, and who gives his place when it is needed."""

import pytest

import server_support
from bookie.base.budgets import Budgets
from bookie.base.units import NS_PER_S
from bookie.server.connections import SILENT_NS, Connections


class Clock:
    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0

    async def sleep_until(self, monotonic_ns: int) -> None: ...


class Guest:
    def __init__(self, peer: str, *, has_spoken: bool = True) -> None:
        self.peer = peer
        self.has_spoken = has_spoken
        self.untaken_bytes = 0
        self.taken_bytes = 0
        self.reason = ""

    def cut(self, reason: str) -> None:
        self.reason = reason


def connections_of(most: int) -> tuple[Connections, Clock]:
    clock = Clock()
    return Connections(Budgets(connections=most), clock, server_support.StrictDoors()), clock


def join(connections: Connections, guest: Guest) -> Guest:
    connections.join(guest)
    if guest.has_spoken:
        connections.spoke(guest)
    return guest


def test_at_the_bound_the_oldest_silent_one_goes_of_the_address_with_most_of_them() -> None:
    """From two addresses, saying nothing, one had every place for 30 s, again and again."""
    connections, _ = connections_of(10)
    spoken = [join(connections, Guest(f"10.0.0.1:{number}")) for number in range(4)]
    few = [join(connections, Guest(f"10.0.0.2:{number}", has_spoken=False)) for number in range(2)]
    many = [join(connections, Guest(f"10.0.0.3:{number}", has_spoken=False)) for number in range(4)]

    for number in range(3):
        assert connections.why_not("10.0.0.9:1") is None
        join(connections, Guest(f"10.0.0.9:{number}"))
    assert [bool(guest.reason) for guest in many] == [True, True, False, False]
    assert [bool(guest.reason) for guest in few] == [True, False]  # two and two: the one that is here for longest
    assert not any(guest.reason for guest in spoken)

    for number in range(3):
        assert connections.why_not("10.0.0.8:1") is None
        join(connections, Guest(f"10.0.0.8:{number}"))
    assert connections.why_not("10.0.0.7:1") == "10 connections are open, and no more are taken"
    for guest in (*few, *many):  # their ends, when they come, change nothing
        connections.leave(guest)
    assert connections.why_not("10.0.0.7:1") is not None
    connections.leave(spoken[0])
    assert connections.why_not("10.0.0.7:1") is None


def test_a_bookie_of_one_connection_takes_one() -> None:
    connections, _ = connections_of(1)

    assert connections.why_not("10.0.0.1:1") is None
    join(connections, Guest("10.0.0.1:1"))
    assert connections.why_not("10.0.0.2:1") is not None


def test_an_address_that_comes_and_goes_is_not_shut_out() -> None:
    connections, _ = connections_of(4)

    for number in range(10):
        assert connections.why_not(f"10.0.0.1:{number}") is None
        connections.leave(join(connections, Guest(f"10.0.0.1:{number}")))


def test_an_error_while_looking_is_told_and_the_looking_goes_on() -> None:
    met = server_support.MetDoors()
    connections = Connections(Budgets(connections=10), Clock(), met)
    guest = join(connections, Guest("10.0.0.1:1"))
    connections.unsent.note(guest, 1)
    del guest.untaken_bytes

    connections.look()

    assert [(door, type(error)) for door, error in met.met] == [("connections", AttributeError)]


def test_answers_of_a_client_that_left_count_until_their_memory_is_free() -> None:
    """Who asks, goes and comes again would have the room of others each time."""
    connections, _ = connections_of(10)
    guest = join(connections, Guest("10.0.0.1:1"))
    guest.untaken_bytes = 4096

    connections.leave(guest)
    assert connections.unsent.total_bytes == 4096

    guest.untaken_bytes = 0
    connections.look()
    assert connections.unsent.total_bytes == 0


def test_who_speaks_is_let_in_beside_silent_ones_from_his_own_address() -> None:
    connections, _ = connections_of(10)
    silent = [join(connections, Guest(f"10.0.0.1:{number}", has_spoken=False)) for number in range(5)]

    assert connections.why_not("10.0.0.1:9") is None
    assert [bool(guest.reason) for guest in silent] == [True, False, False, False, False]


def test_one_address_has_half_of_all_and_the_others_are_let_in_beside_it() -> None:
    connections, _ = connections_of(10)
    for number in range(5):
        join(connections, Guest(f"10.0.0.1:{number}"))

    assert "from this address" in str(connections.why_not("10.0.0.1:99"))
    assert connections.why_not("10.0.0.2:99") is None


def test_beyond_the_bound_the_newest_is_refused_in_words() -> None:
    connections, _ = connections_of(3)
    guests = [Guest(f"10.0.0.{number}:1") for number in range(3)]
    for guest in guests:
        join(connections, guest)

    assert connections.why_not("10.0.0.9:1") == "3 connections are open, and no more are taken"
    connections.leave(guests[0])

    assert connections.why_not("10.0.0.9:1") is None
    assert not any(guest.reason for guest in guests)


@pytest.mark.parametrize(("count", "cut"), [(5, 0), (8, 3)])
def test_who_never_said_anything_goes_when_more_than_half_is_taken(count: int, cut: int) -> None:
    connections, clock = connections_of(10)
    silent = [Guest(f"10.0.0.{number}:1", has_spoken=False) for number in range(count)]
    for guest in silent:
        connections.join(guest)

    connections.look()
    assert not any(guest.reason for guest in silent)
    clock.now_ns += SILENT_NS + NS_PER_S
    connections.look()

    assert [bool(guest.reason) for guest in silent] == [True] * cut + [False] * (count - cut)


def test_who_has_spoken_keeps_his_place_for_as_long_as_he_likes() -> None:
    connections, clock = connections_of(2)
    guests = [Guest(f"10.0.0.{number}:1") for number in range(2)]
    for guest in guests:
        join(connections, guest)

    clock.now_ns += 1000 * SILENT_NS
    connections.look()

    assert not any(guest.reason for guest in guests)
