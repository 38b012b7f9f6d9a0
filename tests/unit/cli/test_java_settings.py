"""A Java fleet's bk_server.conf is taken as it is: same identity, same directories, same cluster."""

from pathlib import Path

import pytest

from bookie.base import errors
from bookie.base.units import MIB
from bookie.cli import derive
from bookie.cli.derive import HostLookup, Wanted
from bookie.ports.network import Address
from bookie.settings import java_names, table
from settings_support import LOOKUP, NEEDED, build, load

JAVA_FILE = Path(__file__).parent / "bk_server.conf"


def test_a_file_kept_for_java_starts_the_same_bookie(tmp_path: Path) -> None:
    effective = build(load(JAVA_FILE.read_text(), folder=tmp_path))
    options = effective.options

    assert options.bookie_id == "bk-7.storage.example.net:3181"
    assert options.metadata_uri == "zk+hierarchical://zk-0:2181;zk-1:2181;zk-2:2181/prod/ledgers"
    assert options.session_timeout_ms == 20_000
    assert options.storage.journal_dirs == ("/data/journal0", "/data/journal1")
    assert options.storage.ledger_dirs == ("/data/ledgers0", "/data/ledgers1")
    assert (options.storage.disk_used_max, options.storage.disk_used_again) == (0.90, 0.80)
    assert options.storage.journal_file_bytes_max == 256 * MIB  # 2048 would be read whole at replay
    size = effective.settings.values["journalMaxSizeMB"]
    assert (size.text, size.origin) == ("256", f"at most 256 here; {tmp_path}/bk.conf:28 says 2048")
    assert options.integrity.open_ledger_grace_ms == 45_000
    assert options.autorecovery is not None, "autoRecoveryDaemonEnabled=true"
    assert options.autorecovery.open_ledger_grace_ms == 45_000
    assert effective.http == Address("0.0.0.0", 8000)
    assert options.http_port == 8000


def test_names_without_meaning_are_told_in_one_line_and_once(tmp_path: Path) -> None:
    warnings = load(JAVA_FILE.read_text(), folder=tmp_path).warnings

    (ignored,) = [line for line in warnings if "without meaning here" in line]
    for name in ("numAddWorkerThreads", "ledgerStorageClass", "prometheusStatsHttpPort", "extraServerComponents"):
        assert ignored.count(name) == 1
    assert "zkServers" not in ignored
    assert len(warnings) == 1


def test_a_name_nobody_knows_is_told_with_the_one_that_may_be_meant(tmp_path: Path) -> None:
    warnings = load("ledgerDirectorys=/a\nxyzzy=1\n", folder=tmp_path).warnings

    assert warnings == (
        f"{tmp_path}/bk.conf:1: ledgerDirectorys is not a setting known here, ignored; is ledgerDirectories meant?",
        f"{tmp_path}/bk.conf:2: xyzzy is not a setting known here, ignored",
    )


def test_no_name_is_both_ours_and_without_meaning() -> None:
    ours = set(table.BY_NAME)

    assert not ours & java_names.WITHOUT_MEANING
    assert not ours & set(java_names.REFUSED)
    assert not java_names.WITHOUT_MEANING & set(java_names.REFUSED)
    assert {name for name, _ in java_names.HOLDS_INSTEAD} <= java_names.WITHOUT_MEANING


def wanted(**changes: object) -> Wanted:
    facts: dict[str, object] = {
        "bookie_id": "",
        "port": 3181,
        "advertised": "",
        "interface": "",
        "use_name": False,
        "use_short_name": False,
        "allow_loopback": False,
    }
    return Wanted(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "bookie_id", "host"),
    [
        ({}, "10.0.0.9:3181", "10.0.0.9"),
        ({"use_name": True}, "bk-9.example.net:3181", "bk-9.example.net"),
        ({"use_name": True, "use_short_name": True}, "bk-9:3181", "bk-9"),
        ({"interface": "eth1"}, "192.0.2.7:3181", "192.0.2.7"),
        ({"advertised": "a", "use_name": True}, "a:3181", "a"),
        ({"bookie_id": "named"}, "named", "10.0.0.9"),
        ({"bookie_id": "named", "advertised": "a", "port": 1}, "named", "a"),
    ],
)
def test_the_identity_is_the_one_java_would_have(changes: dict[str, object], bookie_id: str, host: str) -> None:
    found = derive.identity(wanted(**changes), LOOKUP)

    assert (found.bookie_id, found.host) == (bookie_id, host)


def test_a_loopback_identity_is_refused_unless_it_is_allowed() -> None:
    at_home = HostLookup(lambda _: "127.0.1.1", lambda address: address)

    with pytest.raises(errors.BadInput, match=r"127\.0\.1\.1, a loopback address .* set advertisedAddress"):
        derive.identity(wanted(), at_home)
    assert derive.identity(wanted(allow_loopback=True), at_home).bookie_id == "127.0.1.1:3181"
    assert derive.identity(wanted(advertised="localhost"), at_home).bookie_id == "localhost:3181"


@pytest.mark.parametrize(
    ("servers", "layout", "uri"),
    [
        ("a:1", "", "zk+null://a:1/r"),
        (
            "a:1, b:2",
            "org.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory",
            "zk+longhierarchical://a:1;b:2/r",
        ),
        ("a:1", "flat", "zk+flat://a:1/r"),
    ],
)
def test_the_older_names_make_the_uri(servers: str, layout: str, uri: str) -> None:
    assert derive.metadata_uri(servers, "/r", layout) == uri


def test_a_layout_nobody_knows_is_refused(tmp_path: Path) -> None:
    text = NEEDED.replace("metadataServiceUri=zk+hierarchical://zk:2181/ledgers", "zkServers=a:1\nledgerManagerType=ms")

    with pytest.raises(errors.BadInput, match="ledgerManagerFactoryClass 'ms' is not known"):
        build(load(text, folder=tmp_path))


def test_the_newer_name_wins_wherever_it_stands(tmp_path: Path) -> None:
    text = "journalDirectories=/new\njournalDirectory=/old\n"
    turned = "journalDirectory=/old\njournalDirectories=/new\n"

    assert load(text, folder=tmp_path).names("journalDirectories") == ("/new",)
    assert load(turned, folder=tmp_path).names("journalDirectories") == ("/new",)


def test_each_derived_value_says_what_it_came_from(tmp_path: Path) -> None:
    text = "journalDirectory=/j\nledgerDirectories=/l\nzkServers=zk:2181\nlisteningInterface=eth1\n"

    values = build(load(text, folder=tmp_path)).settings.values

    assert values["metadataServiceUri"].origin == f"zkServers ({tmp_path}/bk.conf:3)"
    assert (values["bookieId"].text, values["bookieId"].origin) == ("192.0.2.7:3181", "address of eth1 and bookiePort")
    assert (values["listeningAddress"].text, values["listeningAddress"].origin) == ("192.0.2.7", "address of eth1")


@pytest.mark.parametrize(
    ("said", "directories", "write_mib", "read_mib"),
    [
        ("", "/a", 40, 64),
        ("", "/a,/b,/c", 40, 64),
        ("dbStorage_writeCacheMaxSizeMb=512\ndbStorage_readAheadCacheMaxSizeMb=256\n", "/a", 256, 256),
        ("dbStorage_writeCacheMaxSizeMb=512\ndbStorage_readAheadCacheMaxSizeMb=256\n", "/a,/b,/c,/d", 64, 64),
        ("dbStorage_readAheadCacheMaxSizeMb=0\n", "/a,/b", 40, 0),
    ],
)
def test_caches_take_the_memory_that_java_s_would_however_many_directories_there_are(
    said: str, directories: str, write_mib: int, read_mib: int, tmp_path: Path
) -> None:
    """Java shares each among its directories, and the write cache between its two halves (DbLedgerStorage)."""
    text = f"journalDirectories=/j\nledgerDirectories={directories}\nmetadataServiceUri=zk://zk:2181/ledgers\n{said}"
    storage = build(load(text, folder=tmp_path)).options.storage

    assert (storage.write_cache_bytes_max, storage.read_cache_bytes_max) == (write_mib * MIB, read_mib * MIB)


@pytest.mark.parametrize(("text", "doubts"), [("30", 1), ("999", 1), ("1000", 0), ("30000", 0)])
def test_a_grace_period_that_was_meant_in_seconds_is_doubted(text: str, doubts: int, tmp_path: Path) -> None:
    warnings = load(f"openLedgerRereplicationGracePeriod={text}\n", folder=tmp_path).warnings

    assert len([line for line in warnings if "is milliseconds" in line]) == doubts


def test_every_line_of_the_file_that_comes_with_java_s_bookie_is_understood(tmp_path: Path) -> None:
    """All of its names, those in comments too, with the values it shows."""
    loaded = load((JAVA_FILE.parent / "bk_server_all_names.conf").read_text(), folder=tmp_path)
    effective = build(loaded)

    assert not loaded.problems
    assert not [line for line in loaded.warnings if "not a setting known here" in line]
    assert len(loaded.warnings) == 2  # names without meaning, and the doubtful 30
    assert effective.options.metadata_uri == "zk+hierarchical://localhost:2181/ledgers"
    assert effective.options.bookie_id == "192.0.2.7:3181"
