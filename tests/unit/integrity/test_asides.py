"""The order that keeps a bookie out of service: which of two counts, and what becomes of a lost answer."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_S
from bookie.integrity import asides
from bookie.metadata import paths
from bookie.ports import World
from bookie.ports.admin import Aside
from bookie.ports.metadata_store import ANY_VERSION, MetadataStore
from bookie.sim.faults import Dials
from bookie.sim.metadata_store import MetadataFaults, Strike
from bookie.sim.node import SimNode, Simulation
from one_life_support import one_life
from story_support import story

ROOT, ME = "/ledgers", BookieId("b")
PATH = paths.aside(ROOT, ME)
OUT, BACK = Aside(True, "its disk clicks", "order-1", 1_000), Aside(False, "a new disk", "order-2", 2_000)


class Stage:
    """A metadata store, and what is done to it behind the back of the session that a test has."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation

    def strikes(self, what: str, strike: Strike) -> None:
        """Let the next change that begins so be struck."""
        left = [strike]
        self.simulation.keeper.strike = lambda _, asked: left.pop() if left and asked.startswith(what) else None

    def data(self) -> Any:
        return json.loads(self.simulation.keeper.tree.get(PATH).data)

    @property
    def version(self) -> int:
        return self.simulation.keeper.tree.get(PATH).version


def run(tell: Callable[[Stage, MetadataStore], Awaitable[None]], *, lag_ns: int = 0) -> None:
    simulation = Simulation(1, dials=Dials(metadata=MetadataFaults(lag_ns=lag_ns)))

    async def whole(world: World, _: SimNode) -> None:
        store = await world.metadata_stores.connect("zk+hierarchical://zk:2181/ledgers")
        await store.create(f"{ROOT}/underreplication", b"", parents=True)
        await tell(Stage(simulation), store)

    one_life(simulation, whole)


async def told(stage: Stage, order: Aside) -> None:
    assert asides.load_aside(stage.simulation.keeper.tree.get(PATH).data) == order


# ---- the record -----------------------------------------------------------------------------------------------------


def test_an_order_that_was_written_is_read_back() -> None:
    for order in (OUT, BACK):
        assert asides.load_aside(asides.dump_aside(order)) == order


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        asides.dump_aside(BACK)[:-1],
        *(
            json.dumps({**json.loads(asides.dump_aside(BACK)), **change}).encode()
            for change in (
                {"is_aside": 0},
                {"is_aside": "false"},
                {"asked_ms": True},
                {"asked_ms": 2.5},
                {"asked_ms": "2000"},
                {"asked_ms": -1},
                {"asked_ms": 1 << 62},
            )
        ),
        *(
            json.dumps(
                {key: value for key, value in json.loads(asides.dump_aside(BACK)).items() if key != left}
            ).encode()
            for left in ("is_aside", "why", "order_id", "asked_ms")
        ),
    ],
)
def test_a_record_that_cannot_be_read_keeps_its_bookie_out_and_any_order_overtakes_it(data: bytes) -> None:
    """A person meant something. Taken for "back" it would let a bookie serve that must not."""
    found = asides.load_aside(data)

    assert found.is_aside
    assert not asides.is_overtaken(Aside(False, "", "any", 0), found)


def test_of_a_reason_that_somebody_else_wrote_only_the_beginning_is_taken() -> None:
    found = asides.load_aside(asides.dump_aside(Aside(True, "y" * 1_000, "i" * 1_000, 1)))

    assert (found.why, found.order_id) == ("y" * 400, "i" * 400)


@pytest.mark.parametrize(
    "order",
    [
        Aside(True, "", "", 1),
        Aside(True, "", "i" * 401, 1),
        Aside(True, "", "order-1", -1),
        Aside(True, "", "order-1", 1 << 62),
        Aside(True, "y" * 401, "order-1", 1),
    ],
)
@story(run)
async def test_an_order_that_could_not_be_read_back_as_it_is_is_refused_and_changes_nothing(
    stage: Stage, store: MetadataStore, *, order: Aside
) -> None:
    with pytest.raises(errors.BadInput):
        await asides.set_aside(store, ROOT, ME, order)

    with pytest.raises(errors.NodeMissing):
        stage.data()


# ---- which order counts ---------------------------------------------------------------------------------------------


def test_the_order_that_was_asked_for_later_counts_and_of_two_at_once_the_same_one_for_everybody() -> None:
    other = Aside(False, "", "order-9", OUT.asked_ms)

    assert not asides.is_overtaken(OUT, None)
    assert not asides.is_overtaken(OUT, OUT)
    assert asides.is_overtaken(OUT, BACK)
    assert not asides.is_overtaken(BACK, OUT)
    assert asides.is_overtaken(OUT, other)
    assert not asides.is_overtaken(other, OUT)


@story(run)
async def test_an_order_arrives_late_and_the_later_one_stands(stage: Stage, store: MetadataStore) -> None:
    assert await asides.set_aside(store, ROOT, ME, BACK) == "bookie b comes into service at its next boot"

    with pytest.raises(errors.GrantRefused, match="order order-2 was asked for later than order-1"):
        await asides.set_aside(store, ROOT, ME, OUT)

    await told(stage, BACK)


@story(run)
async def test_one_order_follows_the_other_and_each_may_be_given_twice(stage: Stage, store: MetadataStore) -> None:
    for order in (OUT, OUT, BACK, BACK):
        said = await asides.set_aside(store, ROOT, ME, order)
        assert said.startswith("bookie b does not come" if order.is_aside else "bookie b comes")
        await told(stage, order)

    assert stage.version == 1, "what stands already is not written again"


# ---- others, and answers that are lost ------------------------------------------------------------------------------


@pytest.mark.parametrize("strike", [Strike.ANSWER_LOST, Strike.REQUEST_LOST])
@pytest.mark.parametrize("is_first", [True, False])
@story(run)
async def test_after_a_lost_answer_a_look_says_what_happened_and_the_order_stands(
    stage: Stage, store: MetadataStore, *, is_first: bool, strike: Strike
) -> None:
    if not is_first:
        await asides.set_aside(store, ROOT, ME, Aside(True, "", "order-0", 1))
    stage.strikes(f"create {PATH}" if is_first else f"put {PATH}", strike)

    assert (await asides.set_aside(store, ROOT, ME, BACK)).startswith("bookie b comes into service")

    await told(stage, BACK)
    assert stage.version == (0 if is_first else 1)


def write(stage: Stage, order: Aside) -> None:
    """Somebody else writes `order`, at once."""
    tree, data = stage.simulation.keeper.tree, asides.dump_aside(order)
    try:
        tree.put(PATH, data, ANY_VERSION, now_ms=0)
    except errors.NodeMissing:
        tree.create(PATH, data, now_ms=0, owner=0, sequential=False, parents=True)


def meanwhile(stage: Stage, order: Aside) -> None:
    """Let somebody else write `order` just before the next change of the record."""
    left = [order]

    def strike(_: str, asked: str) -> Strike | None:
        if left and asked.endswith(PATH):
            write(stage, left.pop())
        return None

    stage.simulation.keeper.strike = strike


@story(run, lag_ns=3_600 * NS_PER_S)
async def test_an_order_of_a_moment_ago_counts_though_the_server_of_this_session_is_behind(
    stage: Stage, store: MetadataStore
) -> None:
    await asides.set_aside(store, ROOT, ME, OUT)
    write(stage, BACK)

    with pytest.raises(errors.GrantRefused, match="order-2"):
        await asides.set_aside(store, ROOT, ME, OUT)


@pytest.mark.parametrize("is_first", [True, False])
@story(run)
async def test_a_later_order_that_somebody_else_gives_in_the_same_moment_is_not_overwritten(
    stage: Stage, store: MetadataStore, *, is_first: bool
) -> None:
    if not is_first:
        await asides.set_aside(store, ROOT, ME, Aside(True, "", "order-0", 1))
    meanwhile(stage, BACK)

    with pytest.raises(errors.GrantRefused, match="order-2"):
        await asides.set_aside(store, ROOT, ME, OUT)

    await told(stage, BACK)


@pytest.mark.parametrize("is_first", [True, False])
@story(run)
async def test_an_earlier_order_that_somebody_else_gives_in_the_same_moment_is_replaced(
    stage: Stage, store: MetadataStore, *, is_first: bool
) -> None:
    if not is_first:
        await asides.set_aside(store, ROOT, ME, Aside(True, "", "order-0", 1))
    meanwhile(stage, OUT)

    await asides.set_aside(store, ROOT, ME, BACK)

    await told(stage, BACK)


@story(run)
async def test_who_never_gets_through_is_told_so_in_the_end(stage: Stage, store: MetadataStore) -> None:
    stage.simulation.keeper.strike = lambda _, asked: Strike.REQUEST_LOST if asked == f"create {PATH}" else None

    with pytest.raises(errors.MetadataError, match="changed 5 times meanwhile"):
        await asides.set_aside(store, ROOT, ME, OUT)
