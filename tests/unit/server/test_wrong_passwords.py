"""Passwords are tried slower and slower from an address that errs, and no slower from any other."""

from bookie.base.units import NS_PER_S
from bookie.server.wrong_passwords import FREE, HOSTS_MAX, WrongPasswords


def guesses(found: WrongPasswords, host: str, seconds: int) -> int:
    """How many wrong passwords are looked at in so many seconds, tried as fast as it goes."""
    now_ns = count = 0
    while True:
        now_ns = found.attempt(host, now_ns)
        if now_ns > seconds * NS_PER_S:
            return count
        found.failed(host, now_ns)
        count += 1


def test_guessing_is_slow_after_a_few_mistakes() -> None:
    assert guesses(WrongPasswords(), "10.0.0.1", 3600) < 900


def test_the_first_mistakes_and_all_other_addresses_wait_for_nothing() -> None:
    found = WrongPasswords()
    assert [found.attempt("10.0.0.1", 7) or found.failed("10.0.0.1", 7) for _ in range(FREE)] == [7] * FREE
    for _ in range(100):
        found.failed("10.0.0.1", 7)

    assert found.attempt("10.0.0.1", 7) == 7
    assert found.attempt("10.0.0.1", 7) > 7
    assert found.attempt("10.0.0.2", 7) == 7


def test_attempts_at_once_wait_one_behind_the_other() -> None:
    found = WrongPasswords()
    for _ in range(FREE + 3):
        found.failed("10.0.0.1", 0)

    instants = [found.attempt("10.0.0.1", 0) for _ in range(5)]

    assert instants == sorted(set(instants))


def test_mistakes_are_forgiven_with_time() -> None:
    found = WrongPasswords()
    for _ in range(FREE + 2):
        found.failed("10.0.0.1", 0)
    later_ns = 10 * 60 * NS_PER_S

    assert found.attempt("10.0.0.1", later_ns) == found.attempt("10.0.0.1", later_ns) == later_ns


def test_what_is_remembered_is_bounded_and_the_one_that_errs_stays_in_mind() -> None:
    found = WrongPasswords()
    for number in range(3 * HOSTS_MAX):
        found.failed(f"10.0.0.{number}", number)
        found.failed("attacker", number)

    assert len(found._records) <= HOSTS_MAX
    found.attempt("attacker", 3 * HOSTS_MAX)
    assert found.attempt("attacker", 3 * HOSTS_MAX) > 3 * HOSTS_MAX


def test_an_address_that_errs_again_is_not_the_next_one_forgotten() -> None:
    found = WrongPasswords()
    for _ in range(FREE + 3):
        found.failed("attacker", 0)
    for number in range(HOSTS_MAX - 1):
        found.failed(f"10.0.0.{number}", 0)

    found.failed("attacker", 0)
    found.failed("10.1.0.1", 0)

    found.attempt("attacker", 0)
    assert found.attempt("attacker", 0) > 0


def test_a_night_of_wrong_passwords_is_forgiven_within_eleven_minutes() -> None:
    passwords, now_ns = WrongPasswords(), 0
    for _ in range(6_000):
        now_ns = passwords.attempt("10.0.0.7", now_ns)
        passwords.failed("10.0.0.7", now_ns)
    assert passwords.attempt("10.0.0.7", now_ns) > now_ns

    now_ns += 11 * 60 * NS_PER_S

    assert [passwords.attempt("10.0.0.7", now_ns) - now_ns for _ in range(3)] == [0, 0, 0]
