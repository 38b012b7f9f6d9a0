"""A fleet and, for who asks for it, a Spark session; nothing of them is left for the tests that come after."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import local_support
import spark_support
from bookie import blocking
from bookie.blocking import BlockingClient
from local_support import LocalFleet
from pyspark_bookkeeper import fleet as clients

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """Three bookies in three zones."""
    folder = tmp_path_factory.mktemp("spark-fleet")
    with local_support.fleet(folder / "data", folder / "log", bookies=3) as running:
        yield running
        clients.close_all()  # while there is somebody to say goodbye to


@pytest.fixture(scope="module")
def client(fleet: LocalFleet) -> Iterator[BlockingClient]:
    """To prepare ledgers with."""
    with blocking.connect(fleet.uri) as running:
        yield running


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    with spark_support.spark_session(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture
def closed_port() -> int:
    """A port of the loopback interface at which nobody listens."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    """Holds `secret`, as an editor saves it."""
    path = tmp_path / "password"
    path.write_text("secret\n")
    return path
