"""What a command shows before it is told --yes: a plan that can be done, or why there is none."""

import argparse
import asyncio
import json
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.cli import cookie as cookies
from bookie.cli import evacuate
from bookie.client.repair.naming import AffectedLedger
from bookie.metadata import cookie, paths
from bookie.metadata.cookie import Cookie
from bookie.sim.node import Simulation

ROOT, ID = "/ledgers", BookieId("bookie-1")
URI = f"zk+hierarchical://zk:2181{ROOT}"


@pytest.mark.parametrize("consent", [{}, {"dry_run": True}, {"yes": True}])
def test_no_plan_is_shown_to_make_a_cookie_that_exists(
    consent: dict[str, bool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = cookie.dump_cookie(Cookie(ID, ("/j",), ("/l",), ("/x",), "i-1"))
    (tmp_path / "saved").write_bytes(data)
    more = {"yes": False, "dry_run": False, **consent}
    wanted = argparse.Namespace(bookie=ID, file=tmp_path / "saved", json=False, **more)
    cookies._judge_saved(wanted)
    simulation = Simulation("plans")

    async def story() -> None:
        node = simulation.node("clerk")
        store = await node.do(node.begin().metadata_stores.connect(URI))
        await node.do(store.create(paths.instance_id(ROOT), b"i-1", parents=True))
        await node.do(store.create(paths.cookie(ROOT, ID), data, parents=True))
        with pytest.raises(errors.NodeExists, match="bookie bookie-1 has a cookie already"):
            await node.do(cookies._create(store, paths.parse_uri(URI), wanted))

    simulation.run(story())
    assert "plan" not in capsys.readouterr().err


def test_a_cookie_of_bytes_that_are_no_text_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Java's third layout has no encoding of its own, so it is read whatever it holds."""
    simulation = Simulation("shown")

    async def story() -> None:
        node = simulation.node("clerk")
        store = await node.do(node.begin().metadata_stores.connect(URI))
        await node.do(store.create(paths.cookie(ROOT, ID), b"3\na\xff\n/j\n1\t/l\n", parents=True))
        assert await node.do(cookies._show(store, paths.parse_uri(URI), argparse.Namespace(bookie=ID, json=True))) == 0

    simulation.run(story())
    assert json.loads(capsys.readouterr().out)["text"] == "3\na\\xff\n/j\n1\t/l\n"


def test_ledgers_that_fail_are_said_to_be_tried_again_once(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing:
        asked = 0

        async def move_many(self, wanted: list[LedgerId], done: object) -> dict[LedgerId, str]:
            self.asked += 1
            return dict.fromkeys(wanted, "nobody has it")

    evacuation, report = Failing(), evacuate._Report([ID])
    asyncio.run(evacuate._move(evacuation, [AffectedLedger(LedgerId(7))], report))  # type: ignore[arg-type]

    assert (evacuation.asked, report.left) == (2, {7: "nobody has it"})
    assert capsys.readouterr().err == "1 ledgers could not be moved: trying these a second time\n"


def test_a_bookie_that_no_ledger_names_is_told_as_that_and_not_as_none_of_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = argparse.Namespace(json=False)

    assert evacuate._Report([ID], ledgers=0, forgotten=True).tell(arguments, None) == 0
    assert evacuate._Report([ID], ledgers=2).tell(arguments, None) == 0

    said = capsys.readouterr()
    none, two = said.out.splitlines()
    assert said.err.count("with empty ones it starts as a new bookie") == 1, "of the one that was forgotten"
    assert none == f"no ledger names {ID}; 0 entries, 0 bytes copied; its cookie is deleted"
    assert two.startswith(f"2 of 2 ledgers no longer name {ID}; ")
