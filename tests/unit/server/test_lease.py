"""The lease's rule: what it counts from, and that no clock within its allowance outlives the session."""

import random

from bookie.base.units import NS_PER_MS
from bookie.server.lease import DRIFT_PERCENT, ROUNDS, ServingLease

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
