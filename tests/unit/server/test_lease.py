"""The lease's rule: what it counts from, and that no clock within its allowance outlives the session."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

from bookie.base import errors
from bookie.base.units import NS_PER_MS
from bookie.ports.metadata_store import Session
from bookie.server.lease import DRIFT_PERCENT, ROUNDS, ServingLease, keep

TIMEOUT_NS = 30_000 * NS_PER_MS


def test_nothing_is_answered_before_a_second_round_proved_the_first() -> None:
    lease = ServingLease()
    assert not lease.is_valid(0)

    lease.heard(1_000, timeout_ns=TIMEOUT_NS)

    assert not lease.is_valid(1_001)


def test_it_counts_from_the_round_before_the_last_and_ends_short_of_the_time_out() -> None:
    lease = ServingLease()
    lease.heard(1_000, timeout_ns=TIMEOUT_NS)
    lease.heard(2_000, timeout_ns=TIMEOUT_NS)
    end_ns = 1_000 + TIMEOUT_NS * (100 - DRIFT_PERCENT) // 100

    assert lease.is_valid(end_ns - 1)
    assert not lease.is_valid(end_ns)


def test_it_ends_with_the_session_and_a_new_one_begins_from_nothing() -> None:
    lease = ServingLease()
    lease.heard(1_000, timeout_ns=TIMEOUT_NS)
    lease.heard(2_000, timeout_ns=TIMEOUT_NS)

    lease.ended()
    assert not lease.is_valid(2_001)
    lease.heard(3_000, timeout_ns=TIMEOUT_NS)
    assert not lease.is_valid(3_001)


def test_no_clock_within_the_allowance_sees_it_valid_when_the_session_has_ended() -> None:
    """True time runs on; rounds are lost and late. The leader heard of a round when the next one was answered, at the
    earliest when it was sent, and ends the session a time-out after that by a clock of its own."""
    for seed in range(300):
        draw = random.Random(seed)
        ours, theirs = (1 + draw.uniform(-0.05, 0.05) for _ in range(2))  # true time to each clock
        lease, heard_true_ns, true_ns = ServingLease(), None, 0.0
        for _ in range(draw.randint(2, 30)):
            if draw.random() < 0.8:
                lease.heard(int(true_ns * ours), timeout_ns=TIMEOUT_NS)
                previous, heard_true_ns = heard_true_ns, true_ns
                ends_true_ns = None if previous is None else previous + TIMEOUT_NS / theirs
                if ends_true_ns is not None:
                    assert not lease.is_valid(int(ends_true_ns * ours)), seed
            true_ns += draw.uniform(0.5, 3) * TIMEOUT_NS / ROUNDS


class Rounds:
    """A metadata store and a clock: `happens` says what comes while each round trip is under way, and then ends."""

    session_timeout_ms = 30_000

    def __init__(self, happens: list[str]) -> None:
        self.lease = ServingLease()
        self.session_id = 1
        self.now_ns = 0
        self.valid: list[bool] = []  # after each round
        self._happens = list(happens)
        self._told: Callable[[Session], None] = lambda state: None

    def on_session(self, told: Callable[[Session], None]) -> Callable[[], None]:
        self._told = told
        return lambda: None

    async def sync(self, path: str) -> None:
        what = self._happens.pop(0)
        if what == "another session":  # it was lost and made anew, and nobody has told us yet
            self.session_id += 1
        elif what == "no answer":
            raise errors.MetadataError("no answer")

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0

    async def sleep_until(self, monotonic_ns: int) -> None:
        self.now_ns = max(self.now_ns, monotonic_ns)
        self.valid.append(self.lease.is_valid(self.now_ns))
        if self._happens[:1] == ["lost"]:
            self._happens.pop(0)
            self._told(Session.LOST)
            self.valid.append(self.lease.is_valid(self.now_ns))
        if not self._happens:
            raise asyncio.CancelledError


def after_each(*happens: str) -> list[bool]:
    async def held() -> Any:
        return ()

    async def story() -> list[bool]:
        rounds = Rounds(list(happens))
        with contextlib.suppress(asyncio.CancelledError):
            await keep(rounds.lease, rounds, "/", rounds, held)  # type: ignore[arg-type]
        return rounds.valid

    return asyncio.run(story())


def test_a_round_that_ends_in_another_session_proves_nothing_and_takes_what_was_proven() -> None:
    assert after_each("answer", "answer", "another session", "answer", "answer") == [False, True, False, False, True]


def test_a_session_that_is_lost_takes_the_lease_along_at_once() -> None:
    assert after_each("answer", "answer", "lost", "answer", "answer") == [False, True, False, False, True]


def test_one_lost_round_does_not_end_the_lease() -> None:
    assert after_each("answer", "answer", "no answer", "answer") == [False, True, True, True]
