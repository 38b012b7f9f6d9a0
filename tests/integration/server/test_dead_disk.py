"""A disk that answers nothing when its bookie starts: the process stays, says so on its admin port, and goes on when
the disk answers (spec/operator.md#V14)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import local_support
import wait_support
from bookie.integrity import sentinel
from local_support import LocalFleet

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=3) as running:
        yield running


def report(fleet: LocalFleet) -> dict[str, Any]:
    command = [*local_support.BOOKIE, "integrity", "report", "--json", "--admin", fleet.bookies[0].admin]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_bookie_whose_disk_cannot_be_read_waits_with_an_open_admin_port_until_it_can(fleet: LocalFleet) -> None:
    bookie = fleet.bookies[0]
    life = report(fleet)["incarnation"]
    local_support.stop(bookie)
    # No disk here can be made to fail. A folder in the place of a file is as unreadable.
    mark = Path(sentinel.path(str(bookie.index)))
    kept = mark.rename(mark.with_name("kept"))
    mark.mkdir()

    with local_support.again(bookie, until="boot waits for a person verdict=UNREADABLE") as process:
        told = report(fleet)
        assert (told["state"], told["verdict"], told["dataPortOpen"]) == ("HELD", "UNREADABLE", False), told
        assert "cannot be read" in told["reason"]
        assert "Is a directory" in told["reason"]
        contents = {volume["path"]: volume["contents"] for volume in told["volumes"]}
        assert contents[str(bookie.index)] == "UNREADABLE_CONTENTS", contents
        mark.rmdir()
        kept.rename(mark)
        wait_support.wait_until(lambda: report(fleet)["dataPortOpen"], "it serves", timeout_s=60)
        assert process.poll() is None
        assert report(fleet)["incarnation"] == life
