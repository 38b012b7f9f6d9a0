"""Pace of copies, and settings that are refused together."""

import pytest

from bookie.base import errors
from bookie.base.throttle import Throttle, Throttles
from bookie.base.units import NS_PER_S
from bookie.integrity.options import IntegrityOptions


def test_without_a_rate_nothing_waits() -> None:
    assert Throttle(None).take(1 << 40, 5) == 5


def test_bytes_leave_at_the_rate_after_a_short_burst() -> None:
    throttle = Throttle(1000)
    now_ns = 10 * NS_PER_S

    due = [throttle.take(100, now_ns) for _ in range(11)]

    assert due[0] == now_ns
    assert due[-1] == now_ns + NS_PER_S
    assert due == sorted(due)


def test_a_rest_earns_no_more_than_the_burst() -> None:
    throttle = Throttle(1000)
    throttle.take(1000, 0)

    assert throttle.take(1000, 100 * NS_PER_S) == 100 * NS_PER_S + int(0.9 * NS_PER_S)


def test_each_receiver_has_the_rate_for_itself_and_another_rate_reaches_all_of_them() -> None:
    throttles: Throttles[str] = Throttles(1000)

    assert throttles.take("one", 2000, 0) == 2 * NS_PER_S
    assert throttles.take("other", 100, 0) == NS_PER_S // 10
    throttles.set_rate(None)
    assert throttles.take("one", 1 << 40, 7) == throttles.take("third", 1 << 40, 7) == 7


def test_all_problems_of_the_options_are_told_together() -> None:
    with pytest.raises(errors.BadInput) as refused:
        IntegrityOptions(
            regeneration="always",
            volume_proof="docker",
            copy_rate_bytes_per_s=1,
            scan_concurrency=0,
            retry_delay_ms=99_999,
        )

    for word in ("regeneration", "volumeProof", "copyRateBytesPerSecond", "scan_concurrency", "retry_delay_ms_max"):
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("copy_rate_bytes_per_s", 1024),
        ("open_ledger_grace_ms", 0),
        ("mount_settle_ms", 0),
        ("registration_wait_ms", 0),
        ("inspect_interval_ms", 1),
        ("scan_concurrency", 1),
        ("copy_concurrency", 1),
        ("retry_delay_ms", 1),
        ("fill_scan_concurrency", 1),
        ("fill_ledgers_per_s", 1),
        ("examine_ledgers_per_s", 1),
    ],
)
def test_each_option_works_down_to_its_least_value_and_no_further(name: str, least: int) -> None:
    words = "copyRateBytesPerSecond" if name == "copy_rate_bytes_per_s" else name

    assert getattr(IntegrityOptions(**{name: least}), name) == least  # type: ignore[arg-type]
    with pytest.raises(errors.BadInput, match=f"{words} is {least - 1}: ") as refused:
        IntegrityOptions(**{name: least - 1})  # type: ignore[arg-type]
    assert ";" not in str(refused.value), "it alone is refused"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("regeneration", ("gated", "manual", "local")),
        ("volume_proof", ("kubernetes", "none")),
        ("phase_one", ("scan", "bound")),
    ],
)
def test_words_are_those_that_are_written_and_no_other(name: str, values: "tuple[str, ...]") -> None:
    for value in values:
        assert getattr(IntegrityOptions(**{name: value}), name) == value  # type: ignore[arg-type]
    with pytest.raises(errors.BadInput, match=f"'scam': one of {', '.join(values)}$"):
        IntegrityOptions(**{name: "scam"})  # type: ignore[arg-type]


def test_copies_may_go_as_fast_as_they_do_and_every_retry_after_the_same_time() -> None:
    assert IntegrityOptions(copy_rate_bytes_per_s=None).copy_rate_bytes_per_s is None
    assert IntegrityOptions(retry_delay_ms=7, retry_delay_ms_max=7).retry_delay_ms_max == 7


def test_what_is_not_said_is_the_cautious_one() -> None:
    """A person or an operator lets a bookie begin anew, volumes are proven, and both guards of BP-46 are up."""
    plain = IntegrityOptions()

    assert (plain.regeneration, plain.volume_proof, plain.phase_one) == ("gated", "kubernetes", "scan")
    assert (plain.guard_fence, plain.guard_limbo, plain.fill_after_boot) == (True, True, True)
    assert not plain.allow_storage_expansion
    assert plain.shared_filesystem_ok == ()


def test_only_local_regeneration_acts_by_itself() -> None:
    assert not IntegrityOptions(regeneration="local").waits_for_grant
    assert IntegrityOptions(regeneration="manual").waits_for_grant
    assert IntegrityOptions().waits_for_grant
