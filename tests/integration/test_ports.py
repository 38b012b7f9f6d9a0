"""Both worlds keep the ports' promises: the same examinations on the simulated and on the real adapters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ports_suite
import zookeeper_support

ARMS = [ports_suite.SimArm(), ports_suite.RuntimeArm()]
Arm = ports_suite.SimArm | ports_suite.RuntimeArm

both_worlds = pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper_support.running(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server.uri


@both_worlds
@pytest.mark.parametrize("examination", ports_suite.CLOCK, ids=lambda found: found.__name__)
def test_clock(arm: Arm, examination: ports_suite.Examination, tmp_path: Path) -> None:
    arm.run(examination, tmp_path, "")


@both_worlds
@pytest.mark.parametrize("examination", ports_suite.DISK, ids=lambda found: found.__name__)
def test_disk(arm: Arm, examination: ports_suite.Examination, tmp_path: Path) -> None:
    arm.run(examination, tmp_path, "")


@both_worlds
@pytest.mark.parametrize("examination", ports_suite.ORDERED_STORE, ids=lambda found: found.__name__)
def test_ordered_store(arm: Arm, examination: ports_suite.Examination, tmp_path: Path) -> None:
    arm.run(examination, tmp_path, "")


@both_worlds
@pytest.mark.parametrize("examination", ports_suite.NETWORK, ids=lambda found: found.__name__)
def test_network(arm: Arm, examination: ports_suite.Examination, tmp_path: Path) -> None:
    arm.run(examination, tmp_path, "")


@both_worlds
@pytest.mark.parametrize("examination", ports_suite.METADATA_STORE, ids=lambda found: found.__name__)
def test_metadata_store(
    arm: Arm, examination: ports_suite.Examination, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    uri = request.getfixturevalue("zookeeper") if arm.name == "runtime" else ""
    arm.run(examination, tmp_path, uri)
