"""The bound above all ledger ids, and the listing from the newest one down, in every layout of ids
(docs/decisions/0021-phase-one-in-constant-time.md, rule 1)."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, LedgerId
from bookie.client.ledgers import LEGACY_ID_END, LedgerStore
from bookie.metadata import paths
from bookie.metadata.paths import SHORT_ID_END, LayoutKind

ROOT = "/ledgers"
BESIDE = ("available/readonly", "cookies/b1", "idgen/ID-0000000009", "idgen-long/HOB-0000000001", "underreplication/x")


class Tree:
    """The names of a metadata store. `on_list` is told of each listing before it is answered."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self.nodes = dict.fromkeys(nodes)
        self.listed: list[str] = []
        self.on_list: Callable[[str], None] = lambda path: None

    async def sync(self, path: str) -> None:
        self.listed.append(f"sync {path}")

    async def children(self, path: str) -> list[str]:
        self.listed.append(path)
        self.on_list(path)
        found = {node[len(path) + 1 :].split("/")[0] for node in self.nodes if node.startswith(path + "/")}
        if not found:
            raise errors.NodeMissing(path)
        return sorted(found)


def ledgers_of(kind: LayoutKind, ids: Iterable[int], *more: str) -> tuple[LedgerStore, Tree]:
    made = [paths.ledger_path(ROOT, LedgerId(ledger_id), kind) for ledger_id in ids]
    tree = Tree([*made, *(f"{ROOT}/{name}" for name in (*BESIDE, *more))])
    store: Any = tree
    return LedgerStore(store, ROOT, kind), tree


def up(ledgers: LedgerStore) -> list[LedgerId]:
    async def look() -> list[LedgerId]:
        return [ledger_id async for ledger_id in ledgers.iterate()]

    return asyncio.run(look())


def down(ledgers: LedgerStore) -> list[LedgerId]:
    async def listed() -> list[LedgerId]:
        return [ledger_id async for ledger_id in ledgers.iterate_down()]

    return asyncio.run(listed())


IDS = {
    LayoutKind.FLAT: [0, 9, 10**9, 10**10 - 1, 10**10, 10**12],
    LayoutKind.LEGACY: [0, 9, 10_000, SHORT_ID_END + 5, LEGACY_ID_END - 1],
    LayoutKind.HIERARCHICAL: [0, 9_999, 10_000, SHORT_ID_END - 1, SHORT_ID_END, 10**10, 1 << 32, LEDGER_ID_MAX],
    LayoutKind.LONG_HIERARCHICAL: [0, 9_999, 10_000, SHORT_ID_END, 10**10, LEDGER_ID_MAX],
}


@pytest.mark.parametrize("kind", list(LayoutKind))
def test_every_ledger_is_below_the_bound_and_is_listed_once_from_the_newest_down(kind: LayoutKind) -> None:
    ids = IDS[kind]
    for count in range(len(ids) + 1):
        ledgers, _ = ledgers_of(kind, ids[:count])

        assert asyncio.run(ledgers.bound()) == (max(ids[:count]) + 1 if count else 0)
        assert down(ledgers) == sorted(ids[:count], reverse=True)


@given(st.sets(st.integers(0, LEDGER_ID_MAX) | st.integers(0, 20_000), max_size=12))
def test_listed_down_is_listed_up_turned_round(ids: set[int]) -> None:
    ledgers, _ = ledgers_of(LayoutKind.HIERARCHICAL, ids)

    assert down(ledgers) == up(ledgers)[::-1] == sorted(ids, reverse=True)


@pytest.mark.parametrize("kind", [LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL, LayoutKind.LEGACY])
def test_the_bound_costs_a_handful_of_listings_however_many_ledgers_there_are(kind: LayoutKind) -> None:
    for ids in (range(1), range(30_000, 0, -37)):
        ledgers, tree = ledgers_of(kind, ids)
        asyncio.run(ledgers.bound())

        assert len(tree.listed) <= 9


def test_both_trees_of_a_hierarchical_layout_are_looked_at() -> None:
    """One that stands in the wrong tree has an id all the same; but it is no ledger of any client."""
    stray = paths.ledger_path(ROOT, LedgerId(7), LayoutKind.LONG_HIERARCHICAL)[len(ROOT) + 1 :]
    ledgers, _ = ledgers_of(LayoutKind.HIERARCHICAL, [3, 900], stray)

    assert asyncio.run(ledgers.bound()) == 901
    assert down(ledgers) == [900, 3]


def test_what_no_ledger_id_has_as_its_path_is_passed_over() -> None:
    ledgers, _ = ledgers_of(LayoutKind.HIERARCHICAL, [3, 900], "00/strange/L0001", "999/9999/9999/9999/L9999")

    assert asyncio.run(ledgers.bound()) == 901
    assert down(ledgers) == [900, 3]
    assert up(ledgers) == [3, 900]


def test_no_name_of_a_flat_layout_is_a_ledger_beyond_the_greatest_id() -> None:
    ledgers, _ = ledgers_of(LayoutKind.FLAT, [3, LEDGER_ID_MAX], "L9999999999999999999", "L²", "Lx")

    assert asyncio.run(ledgers.bound()) == LEDGER_ID_MAX + 1
    assert up(ledgers) == down(ledgers)[::-1] == [3, LEDGER_ID_MAX]


@pytest.mark.parametrize("kind", list(IDS))
def test_the_store_is_asked_after_a_sync(kind: LayoutKind) -> None:
    """A server of the store that lags would hide the newest ledgers from a drain, an audit, a list."""
    ledgers, tree = ledgers_of(kind, [3, 900])

    up(ledgers)

    assert tree.listed[:2] == [f"sync {ROOT}", ROOT]


def test_branches_that_are_empty_or_vanish_hide_nothing_behind_them() -> None:
    ledgers, tree = ledgers_of(LayoutKind.HIERARCHICAL, [5, 20_000, 70_000], "00/0009", "77")

    def vanish(path: str) -> None:
        gone = paths.ledger_path(ROOT, LedgerId(70_000))
        if path == gone.rsplit("/", 1)[0]:
            tree.nodes.pop(gone, None)

    tree.on_list = vanish

    assert asyncio.run(ledgers.bound()) == 20_001


@pytest.mark.parametrize("at", range(1, 5))
def test_a_listing_that_breaks_off_is_no_bound(at: int) -> None:
    ledgers, tree = ledgers_of(LayoutKind.HIERARCHICAL, [5, SHORT_ID_END + 1])

    def break_off(path: str) -> None:
        if len(tree.listed) == at:
            raise errors.MetadataError("the connection broke")

    tree.on_list = break_off

    with pytest.raises(errors.MetadataError):
        asyncio.run(ledgers.bound())


def test_a_store_without_the_root_has_no_bound() -> None:
    everything: Any = Tree([])
    with pytest.raises(errors.MetadataError, match="does not exist"):
        asyncio.run(LedgerStore(everything, ROOT).bound())


def test_a_listing_may_be_left_early() -> None:
    ledgers, tree = ledgers_of(LayoutKind.HIERARCHICAL, range(0, 100_000, 10_000))

    async def first() -> LedgerId:
        async with contextlib.aclosing(ledgers.iterate_down()) as listed:
            return await anext(listed)

    assert asyncio.run(first()) == 90_000
    assert len(tree.listed) <= 3


@pytest.mark.parametrize("kind", LayoutKind)
def test_names_that_only_look_like_numbers_are_no_ledgers(kind: LayoutKind) -> None:
    strange = ("L²", "L", "L" + "9" * 5000, "²²/0000/L0007", "00/0000/L²")
    ledgers, _ = ledgers_of(kind, [7], *strange)

    assert down(ledgers) == [7]
