"""A running bookie takes some settings: all that are asked for or none, and defaults again (spec/operator.md#Q17)."""

import pytest

from bookie.base import errors
from bookie.base.throttle import Throttle
from bookie.base.units import MIB, NS_PER_S
from bookie.server.live import LiveSettings, rate
from bookie.settings.table import LIVE


class Part:
    """Something that acts on a setting."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def __call__(self, value: object) -> None:
        self.heard.append(value)


def test_it_tells_what_can_be_changed_and_what_is_in_force_by_the_text_that_was_said() -> None:
    live = LiveSettings({"logLevel": "debug", "bookiePort": "1"})
    live.take_with("logLevel", Part())
    live.take_with("copyRateBytesPerSecond", Part())

    assert live.told() == ("copyRateBytesPerSecond=", "logLevel=debug")


def test_another_value_reaches_its_part_and_empty_text_is_the_default_again() -> None:
    live, copies = LiveSettings({}), Part()
    live.take_with("copyRateBytesPerSecond", copies)

    for text in ("4096", "none", ""):
        live.change({"copyRateBytesPerSecond": text})
        assert live.told() == (f"copyRateBytesPerSecond={text}",)

    assert copies.heard == [4096, None, 64 * MIB]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"flushInterval": "1"}, "flushInterval: no setting that a running bookie takes"),
        ({"localScrubRateLimit": "9"}, "localScrubRateLimit: no setting that a running bookie takes"),
        ({"copyRateBytesPerSecond": "7"}, "at least 1024"),
        ({"copyRateBytesPerSecond": "fast"}, "none or a whole number"),
    ],
)
def test_of_several_values_all_are_taken_or_none(wanted: dict[str, str], why: str) -> None:
    live, level, copies = LiveSettings({}), Part(), Part()
    live.take_with("logLevel", level)
    live.take_with("copyRateBytesPerSecond", copies)

    with pytest.raises(errors.BadInput, match=why):
        live.change({"logLevel": "DEBUG"} | wanted)

    assert (level.heard, copies.heard) == ([], [])
    assert live.told() == ("copyRateBytesPerSecond=", "logLevel=")


def test_a_part_that_comes_later_hears_of_what_changed_before_it_was_there_and_of_nothing_else() -> None:
    live, first, second, other = LiveSettings({"copyRateBytesPerSecond": "5000"}), Part(), Part(), Part()
    live.take_with("scrubRateBytesPerSecond", first)
    live.change({"scrubRateBytesPerSecond": "100"})

    live.take_with("scrubRateBytesPerSecond", second)
    live.take_with("copyRateBytesPerSecond", other)

    assert (first.heard, second.heard, other.heard) == ([100], [100], [])


def test_what_is_taken_after_the_change_goes_at_the_new_rate() -> None:
    throttle = Throttle(100)
    throttle.take(100, 0)
    slow_ns = throttle.take(100, 0)

    throttle.set_rate(1_000)
    fast_ns = throttle.take(100, 0)
    throttle.set_rate(None)

    assert fast_ns - slow_ns == NS_PER_S // 10
    assert throttle.take(1 << 40, slow_ns) == slow_ns


def test_every_setting_that_is_said_to_be_live_is_one_whose_default_can_be_taken() -> None:
    for key in LIVE:
        live, part = LiveSettings({}), Part()
        live.take_with(key, part)
        live.change({key: ""})
        if key != "logLevel":
            rate(part.heard[0])
