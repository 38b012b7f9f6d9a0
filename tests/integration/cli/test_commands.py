"""The commands people reach for at night, on a real fleet: what they see, what they change, what they refuse."""

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import local_support
import wait_support
from bookie import blocking
from bookie.cli import main
from local_support import LocalFleet

pytestmark = pytest.mark.slow

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """Three bookies for the whole module; the last tests stop one of them and empty its volumes."""
    folder = tmp_path_factory.mktemp("fleet")
    with local_support.fleet(folder / "data", folder / "log", bookies=3) as running:
        yield running


@pytest.fixture
def told(fleet: LocalFleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command on the fleet; give its JSON after comparing its exit code."""
    monkeypatch.setenv("BOOKIE_METADATA_SERVICE_URI", fleet.uri)

    def run(*words: str, code: int | None = 0, lines: bool = False) -> Any:
        """`code` None: whatever it is."""
        ended = main.main([*words, "--json"])
        assert code in (ended, None), capsys.readouterr().err
        said = capsys.readouterr().out
        if lines:
            return [json.loads(line) for line in said.splitlines()]
        return json.loads(said) if said else None

    return run


@pytest.fixture(scope="module")
def ledger(fleet: LocalFleet) -> int:
    """A closed ledger of a hundred entries, on every bookie."""
    with blocking.connect(fleet.uri) as client, client.create() as writer:
        writer.append_many([b"entry %d" % number for number in range(100)])
    return int(writer.id)


def config_of(fleet: LocalFleet, number: int = 0) -> str:
    return str(fleet.bookies[number].facts["config"])


def test_the_cluster_and_its_bookies_are_shown(fleet: LocalFleet, told: Run) -> None:
    shown = told("cluster", "show")
    bookies = told("cluster", "list-bookies", "--state", "writable")

    assert (shown["bookiesWritable"], shown["root"]) == (3, "/ledgers")
    assert shown["layout"] == "HierarchicalLedgerManagerFactory"
    assert sorted(each["id"] for each in bookies) == sorted(each.bookie_id for each in fleet.bookies)
    assert told("cluster", "list-bookies", "--state", "gone") == []


def test_a_root_without_a_cluster_is_told_and_not_taken_for_an_empty_one(fleet: LocalFleet, told: Run) -> None:
    elsewhere = ("--metadata-service-uri", fleet.uri.replace("/ledgers", "/elsewhere"))

    for words in (("cluster", "show"), ("cluster", "list-bookies"), ("cookie", "list"), ("ledger", "list")):
        told(*words, *elsewhere, code=1)


@pytest.mark.parametrize(
    "words",
    [
        ["ledger", "list"],
        ["ledger", "create"],
        ["cluster", "show"],
        ["cluster", "list-bookies"],
        ["cookie", "list"],
        ["autorecovery", "status"],
        ["metadata", "show", "0"],
        ["metadata", "acl"],
    ],
)
def test_what_else_stands_in_the_metadata_store_is_not_taken_for_an_empty_cluster(
    fleet: LocalFleet, told: Run, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """And nothing is written there."""
    elsewhere = f"{fleet.uri.rsplit('/', 1)[0]}/zookeeper"

    for _ in range(2):
        assert main.main([*words, "--metadata-service-uri", elsewhere]) == 1
        assert "there is no cluster at /zookeeper" in capsys.readouterr().err


def test_a_cookie_is_mended_in_the_cluster_that_was_named(
    fleet: LocalFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """The settings file names another one: the word that was typed counts."""
    elsewhere = f"{fleet.uri.rsplit('/', 1)[0]}/nowhere"

    assert main.main(["cookie", "fix", "--config", config_of(fleet), "--metadata-service-uri", elsewhere]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert "has nothing at /nowhere" in err


@pytest.mark.parametrize("words", [["cluster", "show"], ["cookie", "fix"], ["cookie", "check"], ["ledger", "list"]])
def test_a_settings_file_that_contradicts_the_environment_is_not_passed_over(
    fleet: LocalFleet,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
) -> None:
    """Whoever has the URI of one cluster in the shell, and names the file of another one, means one of them."""
    (tmp_path / "other.conf").write_text("zkServers=zk-of-others:2181\n")
    monkeypatch.setenv("BOOKIE_METADATA_SERVICE_URI", fleet.uri)

    assert main.main([*words, "--config", str(tmp_path / "other.conf")]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert f"BOOKIE_METADATA_SERVICE_URI names the cluster {fleet.uri}, and " in err
    assert "zk-of-others:2181/ledgers: say which is meant by --metadata-service-uri\n" in err
    assert main.main(["cluster", "show", "--config", config_of(fleet)]) == 0, "they agree"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ledger", "read", "{}", "--bookie", "nobody"], "and ledger {} does not name it"),
        (["test", "sanity", "--bookie", "nobody"], "and nobody registered by it"),
        (
            ["ledger", "accept-loss", "{}", "--bookie", "nobody", "--reason", "x", "--yes"],
            "and ledger {} does not name it",
        ),
    ],
)
def test_a_bookie_that_nobody_knows_is_not_found(
    told: Run, ledger: int, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main.main([word.format(ledger) for word in words]) == 3

    told_of = f"this cluster knows no bookie nobody: it has no cookie, {said.format(ledger)}; `bookie cluster"
    assert told_of in capsys.readouterr().err


def test_of_a_ledger_without_an_end_nothing_is_known(
    told: Run, capsys: pytest.CaptureFixture[str], fleet: LocalFleet
) -> None:
    ledger_id = told("ledger", "create")["ledger"]

    assert told("ledger", "check", str(ledger_id), code=6) == []
    assert main.main(["ledger", "check", str(ledger_id)]) == 6
    assert f"not known: ledger {ledger_id} is OPEN" in capsys.readouterr().err
    assert main.main(["ledger", "read", str(ledger_id)]) == 0
    assert "and none is confirmed yet" in capsys.readouterr().err
    assert main.main(["ledger", "recover", str(ledger_id)]) == 0
    assert capsys.readouterr().out == f"ledger {ledger_id} is closed and has no entry\n"


def test_the_room_on_each_bookie_is_told(fleet: LocalFleet, told: Run) -> None:
    rows = told("cluster", "list-bookies", "--space")

    assert len(rows) == len(fleet.bookies)
    assert all(0 < row["freeBytes"] <= row["totalBytes"] for row in rows)


def test_reading_a_ledger_leaves_its_writer_alone_and_needs_no_password(fleet: LocalFleet, told: Run) -> None:
    with blocking.connect(fleet.uri) as client, client.create(password=b"secret") as writer:
        writer.append_many([b"one", b"two", b"three"])
        seen = [entry["payload"] for entry in told("ledger", "read", str(writer.id), lines=True)]

        assert seen == ["one", "two", "three"][: len(seen)]
        assert told("ledger", "show", str(writer.id))["state"] == "OPEN"
        writer.append(b"four")
        told("ledger", "read", str(writer.id), "--password", "wrong", code=1)
        closed = [entry["payload"] for entry in told("ledger", "read", str(writer.id), "--recover", lines=True)]
        assert closed == ["one", "two", "three", "four"]
        assert told("ledger", "show", str(writer.id))["state"] == "CLOSED"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--first", "200"], 0, "nothing to read from entry 200 on: ledger {} is closed and ends at entry 99"),
        (["--last", "200"], 2, "--last 200 is beyond what can be read: ledger {} is closed and ends at entry 99"),
        (["--first", "2", "--last", "1"], 2, "--last 1 is before --first 2"),
        (["--first", "200", "--follow"], 0, "nothing more comes: ledger {} is closed and ends at entry 99"),
        (["--bookie", "b", "--follow"], 2, "--bookie reads what one bookie has now: leave out --follow and --recover"),
    ],
)
def test_a_range_beyond_the_end_is_told_with_the_end(
    told: Run, ledger: int, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main.main(["ledger", "read", str(ledger), *words]) == code

    assert capsys.readouterr() == ("", f"{'bookie: ' if code else ''}{said.format(ledger)}\n")


def test_a_bookie_that_nobody_knows_or_that_lives_is_not_drained_and_no_order_stays(
    fleet: LocalFleet, told: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--admin", f"127.0.0.1:{fleet.bookies[0].admin_port}")

    for dead, code, why in (("nobody:1", 3, "knows no bookie nobody:1"), (fleet.bookies[1].bookie_id, 4, "is alive")):
        assert main.main(["node", "drain", "--dead", dead, *at]) == code
        said = capsys.readouterr().err
        assert why in said
        assert said.endswith("nothing was begun\n"), "and no doubt whether the bookie that was asked runs"
        assert told("node", "drain", "--status", "--dead", dead, *at, code=6)["isDraining"] is False


def test_a_cluster_can_be_named_by_a_settings_file(
    fleet: LocalFleet, told: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOOKIE_METADATA_SERVICE_URI")

    assert told("cluster", "show", "--config", config_of(fleet))["bookiesWritable"] == 3
    told("cluster", "show", code=2)


def test_what_each_bookie_holds_of_a_ledger_is_checked(fleet: LocalFleet, told: Run, ledger: int) -> None:
    told("ledger", "check", str(ledger), code=6)  # listed, and no byte was read
    rows = told("ledger", "check", str(ledger), "--listed")

    assert [(row["expected"], row["held"], row["missing"], row["read"]) for row in rows] == [(100, 100, 0, 0)] * 3
    assert {row["outcome"] for row in rows} == {"listed"}
    rows = told("ledger", "check", str(ledger), "--read")
    assert [(row["expected"], row["read"], row["corrupt"], row["outcome"]) for row in rows] == [
        (100, 100, 0, "whole")
    ] * 3
    one = fleet.bookies[0].bookie_id
    read = told("ledger", "read", str(ledger), "--bookie", one, "--first", "98", lines=True)
    assert [entry["payload"] for entry in read] == ["entry 98", "entry 99"]


def test_a_record_is_dumped_and_restored_as_it_was(
    told: Run, ledger: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "record")
    told("metadata", "dump", str(ledger), "--output", saved)
    before = told("metadata", "show", str(ledger))

    for words, code, said in (
        (["--yes"], 1, "so nothing was restored: look at it (`bookie metadata show"),
        (["--dry-run"], 1, "--replace then puts this dump in its place"),
        (["--replace"], 4, "nothing was done; run the command again with --yes to do this"),
    ):
        assert main.main(["metadata", "restore", str(ledger), saved, *words]) == code
        shown = capsys.readouterr()
        assert (shown.out, said in shown.err) == ("", True), shown
    assert told("metadata", "show", str(ledger)) == before
    told("metadata", "restore", str(ledger), saved, "--replace", "--yes")

    after = told("metadata", "show", str(ledger))
    assert (after["sha256"], after["version"]) == (before["sha256"], before["version"] + 1)
    assert told("metadata", "show", "--file", saved)["sha256"] == before["sha256"]


def test_a_record_is_dumped_as_json_too(told: Run, ledger: int, tmp_path: Path) -> None:
    told("metadata", "dump", str(ledger), "--output", str(tmp_path / "record"))

    dumped = told("metadata", "dump", str(ledger))

    assert base64.b64decode(dumped["base64"]) == (tmp_path / "record").read_bytes()


@pytest.mark.parametrize(
    ("words", "code"), [(["ledger", "list", "--naming"], 0), (["autorecovery", "list", "--missing"], 6)]
)
def test_a_list_for_a_bookie_that_nobody_knows_is_not_an_empty_one(
    fleet: LocalFleet, told: Run, words: list[str], code: int
) -> None:
    told(*words, fleet.bookies[0].bookie_id, code=code)
    told(*words, "nobody:1", code=3)


def test_auto_recovery_is_switched_and_asked(told: Run) -> None:
    assert told("autorecovery", "status")["enabled"] is True
    assert told("autorecovery", "disable") == {"enabled": False, "changed": True}
    assert told("autorecovery", "disable") == {"enabled": False, "changed": False}
    assert told("autorecovery", "enable")["changed"] is True
    assert told("autorecovery", "delay", "--set", "30") == {"delaySeconds": 30}
    assert told("autorecovery", "list", code=6) == []  # nobody audits here, so that nothing is marked says nothing
    assert told("autorecovery", "list", "--in-progress") == []  # that nobody repairs is known
    told("autorecovery", "audit", code=3)


def test_a_node_is_made_read_only_and_writable_again(fleet: LocalFleet, told: Run) -> None:
    assert told("node", "read-only", "--config", config_of(fleet))["state"] == "READ_ONLY"

    def is_announced(state: str) -> bool:
        rows = told("cluster", "list-bookies", "--state", state)
        return fleet.bookies[0].bookie_id in [row["id"] for row in rows]

    wait_support.wait_until(lambda: is_announced("read-only"), "the read-only record", timeout_s=30)
    assert told("node", "writable", "--config", config_of(fleet))["state"] == "SERVING"
    wait_support.wait_until(lambda: is_announced("writable"), "the writable record", timeout_s=30)
    assert told("node", "show", "--config", config_of(fleet))["verdict"] == "HEALTHY"


def test_upkeep_is_done_when_it_is_asked_for(fleet: LocalFleet, told: Run) -> None:
    admin = ("--admin", fleet.bookies[1].admin)
    with blocking.connect(fleet.uri) as client:
        with client.create() as writer:
            writer.append_many([b"soon forgotten"] * 10)
        client.delete(writer.id)

    assert told("node", "checkpoint", *admin) == {"durable": True}
    report = told("node", "collect-garbage", *admin, "--compact", "minor")

    assert report["ledgersDeleted"] >= 1
    assert report["refused"] == ""
    before = told("node", "scrub", *admin, "--start")["passesDone"]
    wait_support.wait_until(
        lambda: told("node", "scrub", *admin, code=None)["passesDone"] > before, "a pass", timeout_s=60
    )
    assert told("node", "fill-holes", *admin, "--start")["outcome"] in ("not known", "whole")
    wait_support.wait_until(
        lambda: told("node", "fill-holes", *admin, code=None)["outcome"] == "whole", "no holes", timeout_s=60
    )
    scrubbed = told("node", "scrub", *admin)
    assert (scrubbed["badCount"], scrubbed["outcome"]) == (0, "whole")


def test_deletions_beyond_a_day_are_held_until_a_person_lets_them_go(fleet: LocalFleet, told: Run) -> None:
    admin = ("--admin", fleet.bookies[2].admin)
    with blocking.connect(fleet.uri) as client:
        for _ in range(20):
            with client.create() as writer:
                writer.append(b"deleted by somebody")
            client.delete(writer.id)

    held = told("node", "collect-garbage", *admin, code=1)
    assert held["ledgersDeleted"] == 0
    assert held["ledgersHeld"] >= 20
    assert "bookie node release-garbage" in held["heldReason"]
    told("node", "release-garbage", *admin, code=4)  # nobody said --yes
    shown = told("node", "release-garbage", *admin, "--dry-run")
    assert shown["dryRun"]
    assert f"  delete {held['ledgersHeld']} of " in "\n".join(shown["plan"])
    assert told("node", "show", *admin)["garbageHeldLedgers"] == held["ledgersHeld"]
    assert told("node", "release-garbage", *admin, "--yes")["ledgersDeleted"] == held["ledgersHeld"]
    assert told("node", "release-garbage", *admin, "--yes")["ledgersHeld"] == 0
    assert told("node", "release-garbage", *admin, "--dry-run") == {"dryRun": True, "plan": []}


def test_a_ledger_keeps_what_was_said_about_it(told: Run) -> None:
    made = told("ledger", "create", "--custom", "application=a test", "--custom", "k=")

    assert told("ledger", "show", str(made["ledger"]))["custom"] == {"application": "a test", "k": ""}
    told("ledger", "create", "--custom", "nonsense", code=2)
    told("ledger", "create", "--custom", "k=one", "--custom", "k=two", code=2)


def test_sanity_and_speed_leave_no_ledger_behind(fleet: LocalFleet, told: Run) -> None:
    before = told("ledger", "list")

    assert told("test", "sanity")["entries"] == 20
    assert told("test", "sanity", "--bookie", fleet.bookies[1].bookie_id)["bookies"] == [fleet.bookies[1].bookie_id]
    speed = told("test", "speed", "--entries", "300", "--in-flight", "50")

    assert speed["addsPerSecond"] > 0
    assert speed["readsPerSecond"] > 0
    assert told("ledger", "list") == before


def test_identities_are_shown_and_a_living_one_is_not_forgotten(fleet: LocalFleet, told: Run, tmp_path: Path) -> None:
    one = fleet.bookies[0].bookie_id

    assert {row["state"] for row in told("cookie", "check", "--config", config_of(fleet))} == {"equal"}
    assert told("cookie", "generate", "--config", config_of(fleet))["text"] == told("cookie", "show", one)["text"]
    told("cookie", "delete", one, "--yes", code=4)
    saved = tmp_path / "cookie"
    saved.write_text(told("cookie", "show", one)["text"])
    told("cookie", "create", "another:1", str(saved), "--yes", code=2)
    told("cookie", "create", one, str(saved), code=1)  # it is there


def test_what_a_bookie_holds_is_brought_to_others_while_it_serves(fleet: LocalFleet, told: Run) -> None:
    with blocking.connect(fleet.uri) as client:
        with client.create(ensemble_size=2, write_quorum=2, ack_quorum=2) as writer:
            writer.append_many([b"entry %d" % number for number in range(100)])
        leaver, stays = writer.metadata.last_segment.bookies
    told("ledger", "check", str(writer.id), "--read")

    told("cluster", "recover-bookie", leaver, "--ledger", str(writer.id), code=4)
    shown = told("cluster", "recover-bookie", leaver, "--ledger", str(writer.id), "--dry-run")
    assert "of 1 ledgers to other bookies" in shown["plan"][0]
    assert not any("read-only" in line for line in shown["plan"])  # it stays, and may be chosen
    done = told("cluster", "recover-bookie", leaver, "--ledger", str(writer.id), "--yes")

    assert (done["ledgers"], done["moved"], done["entriesCopied"], done["left"]) == (1, 1, 100, [])
    (segment,) = told("ledger", "show", str(writer.id))["segments"]
    assert (leaver in segment["bookies"], segment["bookies"][1]) == (False, stays)
    rows = told("ledger", "check", str(writer.id), "--read")  # ends with 1 if a replica is missing
    assert [(row["expected"], row["held"]) for row in rows] == [(100, 100)] * 2
    again = told("cluster", "recover-bookie", leaver, "--ledger", str(writer.id), "--yes")
    assert (again["ledgers"], again["entriesCopied"]) == (0, 0)
    shown = told("cluster", "recover-bookie", leaver, "--ledger", str(writer.id), "--dry-run")
    assert f"ledger {writer.id} does not name {leaver}: nothing of it is moved" in shown["plan"]
    assert any("read-only" in line for line in told("cluster", "recover-bookie", leaver, "--dry-run")["plan"])
    told("cluster", "recover-bookie", leaver, "--ledger", "999999999", "--yes", code=3)
    told("cluster", "recover-bookie", "no/id", "--yes", code=2)
    told("cluster", "recover-bookie", "unknown:1", "--yes", code=3)
    told("cluster", "decommission", "unknown:1", "--yes", code=3)
    told("cluster", "decommission", leaver, "--yes", code=4)  # it lives


def test_a_bookie_leaves_alive_and_stays_after_all(fleet: LocalFleet, told: Run) -> None:
    with blocking.connect(fleet.uri) as client:
        with client.create(ensemble_size=2, write_quorum=2, ack_quorum=2) as writer:
            writer.append_many([b"entry %d" % number for number in range(100)])
        name = writer.metadata.last_segment.bookies[0]
    leaver = next(bookie for bookie in fleet.bookies if bookie.bookie_id == name)
    at = ("--admin", f"127.0.0.1:{leaver.admin_port}")
    told("node", "drain", "--status", *at, code=6)  # it does not drain
    named = told("cluster", "references", name, code=1)
    assert str(writer.id) in [str(each["ledgerId"]) for each in named["first"]]

    assert told("node", "drain", *at)["isDraining"] is True
    assert told("node", "show", *at)["isDraining"] is True
    told("node", "writable", *at, code=1)  # it stays read-only
    told("node", "drain", "--dead", name, *at, code=2)  # it lives

    def is_moved() -> bool:  # the copies come first, then the record that names others
        (segment,) = told("ledger", "show", str(writer.id))["segments"]
        return name not in segment["bookies"]

    wait_support.wait_until(is_moved, "another bookie to be named", timeout_s=60)
    assert told("node", "drain", "--status", *at, code=None)["entriesCopied"] >= 100
    assert told("node", "drain", "--cancel", *at)["isDraining"] is False
    assert told("node", "show", *at)["isDraining"] is False
    told("node", "drain", "--bytes-per-second", "1", *at, code=2)
    told("cluster", "references", "unknown:1", code=3)
    told("ledger", "check", str(writer.id), "--read")


def test_a_stopped_bookie_is_looked_into_and_then_mended_by_hand(fleet: LocalFleet, told: Run, ledger: int) -> None:
    victim = fleet.bookies[2]
    local_support.stop(victim)  # not only no longer registered: what it writes at its end is looked into

    def is_gone() -> bool:
        return victim.bookie_id in [row["id"] for row in told("cluster", "list-bookies", "--state", "gone")]

    wait_support.wait_until(is_gone, "the end of the bookie", timeout_s=60)
    _look_into(victim, told, ledger)
    _mend(victim, told)


def _look_into(victim: local_support.LocalBookie, told: Run, ledger: int) -> None:
    whose = told("inspect", "directory", str(victim.index))
    assert (whose["bookie"], whose["role"], whose["incarnation"]) == (victim.bookie_id, "index", 1)
    assert (whose["hasCookie"], whose["endedWell"], len(whose["replayFrom"])) == (True, None, 1)
    assert told("inspect", "directory", str(victim.ledgers))["endedWell"] is True
    records = told("inspect", "journal", str(victim.journal), "--ledger", str(ledger), lines=True)
    assert {record["ledger"] for record in records} <= {ledger}
    assert not [record for record in records if record["kind"] in ("key", "fence") and "hex" in record]  # a secret
    (facts,) = told("inspect", "ledgers", str(victim.index), "--ledger", str(ledger), "--count")
    assert (facts["entries"], facts["lastEntry"], facts["isLimbo"]) == (100, 99, False)
    places = told("inspect", "index", str(victim.index), "--ledger", str(ledger), lines=True)
    (log,) = {place["log"] for place in places}
    assert log in [
        row["log"] for row in told("inspect", "entry-logs", str(victim.ledgers), "--index", str(victim.index))
    ]
    written = told("inspect", "entry-log", str(victim.ledgers), str(log), "--ledger", str(ledger), lines=True)
    assert sorted(record["entry"] for record in written) == list(range(100))
    found = told("inspect", "entry", str(victim.ledgers), str(ledger), "7", "--index", str(victim.index))
    assert bytes.fromhex(found["hex"]).endswith(b"entry 7")
    told("inspect", "entry", str(victim.ledgers), str(ledger), "100", "--index", str(victim.index), code=3)
    told("inspect", "journal", "/nowhere", code=3)


def _mend(victim: local_support.LocalBookie, told: Run) -> None:
    """BP-46: the fix by hand marks and stamps, refuses without --yes, and a second time finds nothing to do."""
    config = str(victim.facts["config"])
    assert told("cookie", "fix", "--config", config)["fixed"] is False
    assert told("cookie", "fix", "--config", config, "--dry-run") == {"dryRun": True, "plan": []}
    for directory in (victim.journal, victim.ledgers, victim.index):
        shutil.rmtree(directory / "current")
        for path in directory.iterdir():
            path.unlink()

    told("cookie", "check", "--config", config, code=1)
    told("cookie", "fix", "--config", config, code=4)
    assert told("cookie", "fix", "--config", config, "--yes") == {
        "bookie": victim.bookie_id,
        "verdict": "LOST",
        "fixed": True,
    }
    again = told("cookie", "fix", "--config", config, "--yes")
    assert (again["verdict"], again["fixed"]) == ("HEALTHY", False)
    shown = told("cookie", "show", victim.bookie_id)
    assert (shown["incarnation"], shown["version"]) == (2, 1)


def test_a_stopped_bookie_is_forgotten_only_when_nothing_of_it_is_missed(
    fleet: LocalFleet, told: Run, ledger: int
) -> None:
    """After the test above, which stopped it."""
    victim = fleet.bookies[2].bookie_id

    first = told("cluster", "decommission", victim, "--yes", code=1)

    assert {left["ledger"] for left in first["left"]} >= {ledger}  # 3/3/2, and two bookies are left
    assert all("start more" in left["reason"] for left in first["left"]), first["left"]
    assert (first["cookieForgotten"], victim in told("cookie", "list")) == (False, True)
    for left in first["left"]:
        told("ledger", "delete", str(left["ledger"]), "--yes")
    assert told("cluster", "decommission", victim, "--yes")["cookieForgotten"] is True
    told("ledger", "list", "--naming", victim, code=3)  # nobody knows it any more
    told("cookie", "show", victim, code=3)
