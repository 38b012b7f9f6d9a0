"""A secret is never printed by accident."""

import dataclasses

from bookie.base.secret import Secret


@dataclasses.dataclass(frozen=True)
class Holder:
    password: Secret


def test_no_way_of_printing_gives_it_away() -> None:
    holder = Holder(Secret("hunter2"))

    printed = f"{holder} {holder!r} {holder.password} {[holder.password]} {dataclasses.asdict(holder)} %s" % holder

    assert "hunter2" not in printed


def test_it_matches_itself_only() -> None:
    assert Secret("a b").matches("a b")
    assert not Secret("a b").matches("a c")
    assert not Secret("a b").matches("a b\udcff")
    assert Secret("x") == Secret("x") != Secret("y")
