"""One fleet and two official Java clients for the whole run; the questions are in the tests.

`BOOKIE_JUDGED=java` puts official Java bookies in our bookies' place: what the judge asks must hold there too.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import java_fleet_support
import java_support
import local_support
from java_departure_support import Departure
from java_fleet_support import JudgedFleet
from java_operator_support import JavaOperator

BOOKIES = 3


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        java_support.ensure_java()
    except java_support.JavaMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    return tmp_path_factory.mktemp("interop")


@pytest.fixture(scope="session")
def fleet(folder: Path) -> Iterator[JudgedFleet]:
    """The judged fleet: three bookies."""
    if os.environ.get("BOOKIE_JUDGED") == "java":
        with java_fleet_support.zookeeper(folder) as uri, java_fleet_support.bookies(uri, folder, BOOKIES) as ids:
            yield JudgedFleet(uri, ids, folder=folder)
        return
    with local_support.fleet(folder / "fleet", folder / "fleet.log", bookies=BOOKIES) as local:
        yield JudgedFleet(local.uri, [bookie.bookie_id for bookie in local.bookies], folder=folder)


@pytest.fixture(scope="session")
def java_fleet(folder: Path) -> Iterator[JudgedFleet]:
    """Official bookies, for our client to be judged against."""
    home = folder / "official"
    home.mkdir()
    with java_fleet_support.zookeeper(home) as uri, java_fleet_support.bookies(uri, home, BOOKIES) as ids:
        yield JudgedFleet(uri, ids, folder=home)


@pytest.fixture(scope="session")
def java(fleet: JudgedFleet) -> Iterator[java_support.JavaClient]:
    """The official client on the judged fleet."""
    # Java reads its login configuration once: whoever proves himself by a password does so in this process.
    flags = (f"-Djava.security.auth.login.config={java_support.jaas_file(fleet.folder)}",)
    with java_support.JavaClient(fleet.uri, fleet.folder / "java.log", flags=flags) as client:
        yield client


@pytest.fixture(scope="session")
def other_java(fleet: JudgedFleet) -> Iterator[java_support.JavaClient]:
    """A second official client in a process of its own; it announces its last confirmed entry every 50 ms."""
    with java_support.JavaClient(fleet.uri, fleet.folder / "other.log", explicit_lac_ms=50) as client:
        yield client


@pytest.fixture(scope="session")
def java_v2(java: java_support.JavaClient) -> Iterator[java_support.JavaGuest]:
    """An official client that speaks protocol version 2, as Pulsar's does."""
    with java.guest("v2", v2=True) as guest:
        yield guest


@pytest.fixture(scope="session")
def other_java_v2(other_java: java_support.JavaClient) -> Iterator[java_support.JavaGuest]:
    """A second one, in the other process."""
    with other_java.guest("v2", v2=True, explicit_lac_ms=50) as guest:
        yield guest


@pytest.fixture(scope="session")
def operator(fleet: JudgedFleet) -> Iterator[JavaOperator]:
    """The official shell on the judged fleet."""
    with JavaOperator(fleet.uri, fleet.folder / "operator.log") as shell:
        yield shell


@pytest.fixture(scope="session")
def departure(folder: Path) -> Iterator[Departure]:
    """Four bookies of ours and the official auto-recovery; one of them is lost, and decommissioned in the end."""
    home = folder / "departure"
    home.mkdir()
    with (
        local_support.fleet(home / "fleet", home / "fleet.log", bookies=4) as local,
        JavaOperator(local.uri, home / "operator.log") as recoverer,
    ):
        leaving = Departure(local, recoverer)
        yield leaving
        leaving.end()


@pytest.fixture
def mortal(fleet: JudgedFleet, tmp_path: Path) -> Iterator[local_support.MortalBookie]:
    """A fourth bookie, which the test kills; the next test finds three."""
    if os.environ.get("BOOKIE_JUDGED") == "java":
        pytest.skip("a bookie of ours dies here")
    with local_support.one_bookie(fleet.uri, tmp_path / "mortal") as bookie:
        yield bookie
    java_fleet_support.forget(fleet.uri, bookie.bookie_id)
