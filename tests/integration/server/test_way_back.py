"""A record of a bookie in the metadata store that somebody spoilt or deleted.

The bookie waits, its log says what helps, and who does exactly that has it back with all it had.
"""

import dataclasses
import json
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

import local_support
import wait_support
from bookie import blocking
from bookie.base.ids import BookieId, Incarnation
from bookie.metadata import paths
from bookie.metadata.position import dump_position, load_position
from bookie.rpc import calls
from bookie.rpc.client import AdminClient
from local_support import LocalBookie, LocalFleet

pytestmark = pytest.mark.slow

ROOT = "/ledgers"
HELD = "boot waits for a person"
SERVES = b"serving bookie_id="
ENTRIES = [b"entry %d" % number for number in range(20)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=1) as running:
        local_support.stop(running.bookies[0])
        yield running


@pytest.fixture
def stranger(fleet: LocalFleet) -> Iterator[KazooClient]:
    """A client of ZooKeeper's own."""
    client = KazooClient(fleet.uri.partition("//")[2].partition("/")[0])
    client.start(timeout=60)
    yield client
    client.stop()
    client.close()


def said(bookie: LocalBookie, since: int = 0) -> bytes:
    return bookie.logs()[0].read_bytes()[since:]


def serves_again(bookie: LocalBookie, since: int) -> None:
    wait_support.wait_until(lambda: SERVES in said(bookie, since), "the bookie to serve", timeout_s=60)


def written(fleet: LocalFleet) -> int:
    with (
        local_support.again(fleet.bookies[0]),
        blocking.connect(fleet.uri) as client,
        client.create(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer,
    ):
        for entry in ENTRIES:
            writer.append(entry)
        return int(writer.id)


def assert_whole(fleet: LocalFleet, ledger: int) -> None:
    with blocking.connect(fleet.uri) as client, client.open(ledger) as reader:
        assert [bytes(entry.payload) for entry in reader.read(0, len(ENTRIES) - 1)] == ENTRIES


def spoilt(client: KazooClient, path: str) -> None:
    client.set(path, b"\xff garbage")


def written_anew(client: KazooClient, path: str, data: bytes) -> None:
    client.set(path, data) if client.exists(path) else client.create(path, data)


@pytest.mark.parametrize("harm", [spoilt, KazooClient.delete])
def test_a_record_of_lives_is_written_by_hand_as_the_log_says(
    fleet: LocalFleet, stranger: KazooClient, harm: Callable[[KazooClient, str], None]
) -> None:
    ledger, (bookie,) = written(fleet), fleet.bookies
    path = paths.incarnation(ROOT, BookieId(bookie.bookie_id))
    harm(stranger, path)
    since = len(said(bookie))

    with local_support.again(bookie, until=HELD):
        found = re.search(
            rf"restore {path} from a backup .* write there what they say: (\{{.*\}})", said(bookie, since).decode()
        )
        assert found is not None, said(bookie, since)
        written_anew(stranger, path, found[1].encode())
        serves_again(bookie, since)

        assert_whole(fleet, ledger)
        assert json.loads(stranger.get(path)[0])["incarnation"] == 1
    assert said(bookie, since).count(HELD.encode()) == 1


def test_a_cookie_that_is_none_is_deleted_and_made_as_the_log_says(fleet: LocalFleet, stranger: KazooClient) -> None:
    ledger, (bookie,) = written(fleet), fleet.bookies
    path = paths.cookie(ROOT, BookieId(bookie.bookie_id))
    kept, _ = stranger.get(path)
    spoilt(stranger, path)
    since = len(said(bookie))

    with local_support.again(bookie, until=HELD):
        assert f"{path}: the record is not a cookie".encode() in said(bookie, since)
        assert b"or delete this node: then `bookie cookie create`, with current/VERSION of one of" in said(
            bookie, since
        )
        stranger.delete(path)
        made = [
            *local_support.BOOKIE,
            "cookie",
            "create",
            "--yes",
            "--config",
            bookie.facts["config"],
            bookie.bookie_id,
        ]
        subprocess.run([*made, bookie.ledgers / "current" / "VERSION"], check=True, timeout=60)
        serves_again(bookie, since)

        assert_whole(fleet, ledger)
    assert stranger.get(path)[0] == kept


def test_a_sign_of_no_session_is_told_from_a_living_process(fleet: LocalFleet, stranger: KazooClient) -> None:
    ledger, (bookie,) = written(fleet), fleet.bookies
    path = paths.process(ROOT, BookieId(bookie.bookie_id))
    stranger.create(path, b"of a copy of the metadata store")
    since = len(said(bookie))

    with local_support.again(bookie, until="waiting for the end of another process"):
        told = f"its node {path} exists, and belongs to no session, so no living process made it: delete it"
        assert told.encode() in said(bookie, since)
        with AdminClient(bookie.admin) as admin:
            assert admin.ask(calls.storage_report(fresh=True)).reason.endswith(told)
        stranger.delete(path)
        serves_again(bookie, since)

        assert_whole(fleet, ledger)


def test_a_record_older_than_the_last_position_is_taken_for_volumes_set_back(
    fleet: LocalFleet, stranger: KazooClient
) -> None:
    """Last here: a bookie alone has nobody to bring back what it then doubts."""
    written(fleet)
    (bookie,) = fleet.bookies
    path = paths.position(ROOT, BookieId(bookie.bookie_id))
    position = load_position(stranger.get(path)[0])
    later = dataclasses.replace(position, incarnation=Incarnation(position.incarnation + 1))
    stranger.set(path, dump_position(later))
    since = len(said(bookie))

    with local_support.again(bookie):
        assert b"verdict=UNCLEAN reason=the volumes went back in time" in said(bookie, since)
