"""Settings: file, then environment, then flags; each value knows where it came from; problems are told together."""

from pathlib import Path

import pytest

from bookie.base import errors
from bookie.cli.derive import HostLookup
from bookie.integrity.options import IntegrityOptions
from bookie.settings import table
from loss_keys_support import ANN, fingerprint, write_private
from settings_support import NEEDED, build, load


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    text = "bookiePort=1\nadminPort=2\nmetricsPort=3\n"

    loaded = load(
        text,
        "--bookie-port",
        "100",
        folder=tmp_path,
        environment={"BOOKIE_BOOKIE_PORT": "10", "BOOKIE_ADMIN_PORT": "20"},
    )

    origins = {key: (loaded.text(key), loaded.values[key].origin) for key in ("bookiePort", "adminPort", "metricsPort")}
    assert origins == {
        "bookiePort": ("100", "--bookie-port"),
        "adminPort": ("20", "BOOKIE_ADMIN_PORT"),
        "metricsPort": ("3", f"{tmp_path}/bk.conf:3"),
    }
    assert loaded.values["zkTimeout"].origin == "default"


def test_nothing_after_the_sign_is_nothing_said(tmp_path: Path) -> None:
    loaded = load(NEEDED + "bookiePort=\nadvertisedAddress=h\n", folder=tmp_path)

    assert loaded.values["bookiePort"].origin == "default"
    assert build(loaded).options.port == 3181


def test_everything_reaches_the_options(tmp_path: Path) -> None:
    text = NEEDED + (
        "bookieId=b-1\nadvertisedAddress=host\nbookiePort=4000\nzone=z\njournalWriteData=false\nzkTimeout=5000\n"
        "regeneration=local\nallowSharedFilesystem=/a,/b\ncopyRateBytesPerSecond=none\nforceReadOnlyBookie=true\n"
    )

    options = build(load(text, folder=tmp_path)).options

    assert (options.bookie_id, options.host, options.port, options.zone) == ("b-1", "host", 4000, "z")
    assert options.session_timeout_ms == 5000
    assert options.force_read_only is True
    assert options.storage.journal_write_data is False
    assert options.storage.index_dirs == ("/x", "/y")
    assert options.integrity == IntegrityOptions(
        regeneration="local", volume_proof="none", shared_filesystem_ok=("/a", "/b"), copy_rate_bytes_per_s=None
    )


def test_upkeep_is_told_by_java_s_names_and_switched_off_as_in_java(tmp_path: Path) -> None:
    text = NEEDED + (
        "minorCompactionThreshold=0.3\nminorCompactionInterval=60\nmajorCompactionThreshold=-1\n"
        "majorCompactionMaxTimeMillis=5000\nisThrottleByBytes=true\ncompactionRateByBytes=12345\n"
        "localScrubInterval=0\nlocalScrubRateLimit=70\ndiskUsageThreshold=0.85\n"
    )

    storage = build(load(text, folder=tmp_path)).options.storage

    assert (storage.compaction.minor.threshold, storage.compaction.minor.interval_ms) == (0.3, 60_000)
    assert storage.compaction.minor.time_max_ms is None
    assert (storage.compaction.major.is_on, storage.compaction.major.time_max_ms) == (False, 5_000)
    assert (storage.compaction.bytes_per_s, storage.compaction.entries_per_s) == (12_345, None)
    assert (storage.scrub.interval_ms, storage.scrub.entries_per_s) == (0, 70)
    assert (storage.disk_used_warn, storage.disk_used_max) == (0.85, 0.85)


def test_auto_recovery_runs_in_the_bookie_only_where_it_is_asked_for(tmp_path: Path) -> None:
    asked = "autoRecoveryDaemonEnabled=true\nlostBookieRecoveryDelay=7\ncopyRateBytesPerSecond=5000\n"

    own = build(load(NEEDED + asked, folder=tmp_path)).options.autorecovery
    without_limits = "autoRecoveryDaemonEnabled=true\ncopyRateBytesPerSecond=none\n"

    assert build(load(NEEDED, folder=tmp_path)).options.autorecovery is None
    assert own is not None
    assert (own.loss_delay_ms, own.bytes_per_s, own.open_ledger_grace_ms) == (7_000, 5_000, 30_000)
    unbounded = build(load(NEEDED + without_limits, folder=tmp_path)).options.autorecovery
    assert unbounded is not None
    assert (unbounded.loss_delay_ms, unbounded.bytes_per_s) == (60_000, 0)


def test_in_a_pod_volumes_must_prove_to_be_mounted(tmp_path: Path) -> None:
    inside = build(load(NEEDED, folder=tmp_path, environment={"POD_UID": "u-1"}))
    told = build(load(NEEDED + "volumeProof=none\n", folder=tmp_path, environment={"POD_UID": "u-1"}))

    assert inside.options.integrity.volume_proof == "kubernetes"
    assert inside.host.pod_uid == "u-1"
    assert told.options.integrity.volume_proof == "none"


def test_a_pod_whose_label_names_no_zone_does_not_start_without_one(tmp_path: Path) -> None:
    """The downward API makes "" of a label that is not there; outside of a pod "" is nothing said."""
    pod = {"POD_UID": "u-1"}

    with pytest.raises(errors.BadInput, match="BOOKIE_ZONE is empty: this pod has no label"):
        build(load(NEEDED, folder=tmp_path, environment=pod | {"BOOKIE_ZONE": ""}))

    told = build(load(NEEDED, folder=tmp_path, environment=pod | {"BOOKIE_ZONE": "zone-a"}))
    assert told.options.zone == "zone-a"
    assert build(load(NEEDED, folder=tmp_path, environment=pod)).options.zone == ""
    assert build(load(NEEDED, folder=tmp_path, environment={"BOOKIE_ZONE": ""})).options.zone == ""


def test_what_is_missing_is_named_with_the_way_to_set_it() -> None:
    with pytest.raises(errors.BadInput, match=r"journalDirectories.*metadataServiceUri.*BOOKIE_LEDGER_DIRECTORIES"):
        build(load())


def test_all_problems_of_all_kinds_are_told_together_with_their_origin(tmp_path: Path) -> None:
    text = NEEDED + "bookiePort=many\njournalWriteData=perhaps\nskipReplayJournalInvalidRecord=true\n"

    with pytest.raises(errors.BadInput) as caught:
        build(load(text, folder=tmp_path))

    assert f"bookiePort is 'many' ({tmp_path}/bk.conf:5)" in str(caught.value)
    assert "journalWriteData is 'perhaps'" in str(caught.value)
    assert f"{tmp_path}/bk.conf:7: skipReplayJournalInvalidRecord=true: " in str(caught.value)


def test_problems_of_every_part_are_told_together(tmp_path: Path) -> None:
    text = NEEDED.replace("/x,/y", "/x") + (
        "regeneration=perhaps\nminorCompactionThreshold=0.9\ntlsRequired=true\nadminPort=3181\n"
    )

    with pytest.raises(errors.BadInput) as caught:
        build(load(text, folder=tmp_path))

    for part in ("1 index directories for 2", "regeneration is 'perhaps'", "TLS is required", "are both 3181"):
        assert part in str(caught.value)


def test_a_text_of_the_wrong_kind_hides_no_other_problem(tmp_path: Path) -> None:
    text = NEEDED.replace("/x,/y", "/x") + (
        "gcWaitTime=abc\nskipReplayJournalInvalidRecord=true\nreadOnlyModeEnabled=false\ndiskUsageThreshold=high\n"
        "diskUsageLwmThreshold=0.97\nadminPort=2000\nmetricsPort=2000\n"
    )
    alone = HostLookup({"": "127.0.0.1"}.__getitem__, str)

    with pytest.raises(errors.BadInput) as caught:
        build(load(text, folder=tmp_path), alone)

    told = str(caught.value)
    for part in (
        "gcWaitTime is 'abc'",
        "skipReplayJournalInvalidRecord=true",
        "diskUsageThreshold is 'high'",
        "readOnlyModeEnabled=false wants",
        "a loopback address",
        "1 index directories for 2",
        "are both 2000",
    ):
        assert part in told
    assert "diskUsageLwmThreshold" not in told  # it is above the default, which nobody said


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("adminPort=3181", "bookiePort and adminPort are both 3181"),
        (
            "metricsPort=9100\nhttpServerEnabled=true\nhttpServerPort=9100",
            "metricsPort and httpServerPort are both 9100",
        ),
        ("adminTlsDirectory=/tls\nadminTlsPort=3181", "bookiePort and adminTlsPort are both 3181"),
        ("httpServerEnabled=true\nhttpServerTlsEnable=true", "httpServerTlsEnable=true needs adminTlsDirectory"),
        ("httpServerEnabled=true\nhttpServerChangesFrom=anywhere", "no stranger changes a bookie"),
        ("diskUsageThreshold=1", "diskUsageThreshold is 1.0, a share of the disk"),
        ("diskUsageWarnThreshold=0", "diskUsageWarnThreshold is 0.0, a share of the disk"),
        ("httpServerEnabled=true\nhttpServerPort=70000", "httpServerPort is 70000, not between 0 and 65535"),
        ("advertisedAddress=bk-1:3181", r"advertisedAddress is 'bk-1:3181', not a host's name or address"),
        ("diskUsageThreshold=0.8\ndiskUsageLwmThreshold=0.9", r"diskUsageLwmThreshold \(0.9\) is above"),
        ("diskUsageThreshold=0.8\ndiskUsageWarnThreshold=0.9", r"diskUsageWarnThreshold \(0.9\) is above"),
        ("readOnlyModeEnabled=false", "readOnlyModeEnabled=false wants a bookie that ends"),
        ("permittedStartupUsers=root,alice", "user 'bookie' may not start this bookie"),
        ("useShortHostName=true", "useShortHostName=true without useHostNameAsBookieID=true"),
        ("skipReplayJournalInvalidRecord=true", "never skipped"),
        ("dataIntegrityStampMissingCookies=true", "say regeneration=gated"),
    ],
)
def test_unsafe_combinations_are_refused(tmp_path: Path, lines: str, told: str) -> None:
    with pytest.raises(errors.BadInput, match=told):
        build(load(f"{NEEDED}{lines}\n", folder=tmp_path))


@pytest.mark.parametrize(
    "lines",
    [
        "bookiePort=0\nadminPort=0\nmetricsPort=0",
        "metricsPort=9100\nhttpServerPort=9100",  # not enabled
        "httpServerEnabled=true\nhttpServerPort=13181",  # where adminPort would be, which nobody asked for
        "diskUsageThreshold=0.9\ndiskUsageLwmThreshold=0.9",
        "permittedStartupUsers=bookie",
        "dataIntegrityStampMissingCookies=true\nregeneration=gated",
        "dataIntegrityStampMissingCookies=false",
        "httpServerPort=70000\ncompactionRateByBytes=0",  # not enabled, not used
        "advertisedAddress=2001:db8::7",
        "advertisedAddress=bk_1.storage-a.example.net",
    ],
)
def test_what_is_safe_is_not(tmp_path: Path, lines: str) -> None:
    build(load(f"{NEEDED}{lines}\n", folder=tmp_path))


def test_a_file_that_is_not_there_and_lines_that_are_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match="nowhere"):
        load("", "--config", "/nowhere")
    with pytest.raises(errors.BadInput, match=r"bk\.conf:1: 'word' is not of the form name=value"):
        load("word\n", folder=tmp_path)
    with pytest.raises(errors.BadInput, match=r"zone is set again, and differently \(.*bk.conf:1\)"):
        load("zone=a\nzone=b\n", folder=tmp_path)
    with pytest.raises(errors.BadInput, match=r"ledgerDirectories refers to another value"):
        load("ledgerDirectories=${base}/ledgers\n", folder=tmp_path)


def test_a_value_may_go_on_in_the_next_line(tmp_path: Path) -> None:
    loaded = load("ledgerDirectories : /a,\\\n   # no comment here,\\\n  /b\nzone=z", folder=tmp_path)

    assert loaded.names("ledgerDirectories") == ("/a", "# no comment here", "/b")
    assert loaded.values["zone"].origin.endswith("bk.conf:4")


def test_every_name_makes_its_own_flag_and_variable() -> None:
    settings = table.SETTINGS

    assert len({setting.flag for setting in settings}) == len(settings)
    assert len({setting.variable for setting in settings}) == len(settings)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("gcWaitTime=x", "gcWaitTime is 'x' ({origin}), not a whole number"),
        ("diskUsageThreshold=most", "diskUsageThreshold is 'most' ({origin}), not a number"),
        ("gcWaitTime=1_000", "gcWaitTime is '1_000' ({origin}), not a whole number"),
        ("flushInterval=" + "9" * 5_000, "not a whole number"),
        ("gcWaitTime=\u0663\u0663", "gcWaitTime is '\u0663\u0663' ({origin}), not a whole number"),
        ("copyRateBytesPerSecond=\u0663", "copyRateBytesPerSecond is '\u0663' ({origin}), not none or a whole number"),
        ("journalWriteData=yes", "journalWriteData is 'yes' ({origin}), not true or false"),
        ("scrubRateBytesPerSecond=-1", "scrubRateBytesPerSecond is '-1' ({origin}), not none or a whole number"),
        ("majorCompactionThreshold=nan", "majorCompactionThreshold is 'nan' ({origin}), not a number"),
        ("diskUsageThreshold=inf", "diskUsageThreshold is 'inf' ({origin}), not a number"),
        ("logLevel=VERBOSE", "logLevel is 'VERBOSE' ({origin}), not one of DEBUG, INFO, WARNING, ERROR"),
        ("bookiePort=-1", "bookiePort is '-1' ({origin}), at least 0"),
        ("adminPort=65536", "adminPort is '65536' ({origin}), at most 65535"),
        ("zkTimeout=0", "zkTimeout is '0' ({origin}), at least 1"),
        ("metadataPatienceMs=-5", "metadataPatienceMs is '-5' ({origin}), at least 1"),
        ("gcWaitTime=-1", "gcWaitTime is '-1' ({origin}), at least 1"),
        ("flushInterval=0", "flushInterval is '0' ({origin}), at least 1"),
        ("journalMaxSizeMB=-3", "journalMaxSizeMB is '-3' ({origin}), at least 1"),
        ("entryLogSizeLimit=0", "logSizeLimit is '0' ({origin}), at least 4096"),
        ("logSizeLimit=99999999999", "logSizeLimit is '99999999999' ({origin}), at most 2147483648"),
        ("dbStorage_writeCacheMaxSizeMb=0", "dbStorage_writeCacheMaxSizeMb is '0' ({origin}), at least 1"),
        ("dbStorage_readAheadCacheMaxSizeMb=-1", "dbStorage_readAheadCacheMaxSizeMb is '-1' ({origin}), at least 0"),
        ("localScrubInterval=-1", "localScrubInterval is '-1' ({origin}), at least 0"),
        ("localScrubRateLimit=0", "localScrubRateLimit is '0' ({origin}), at least 1"),
        ("openLedgerRereplicationGracePeriod=-1", "openLedgerRereplicationGracePeriod is '-1' ({origin}), at least 0"),
        ("shutdownTimeoutMs=0", "shutdownTimeoutMs is '0' ({origin}), at least 1"),
        ("nettyMaxFrameSizeBytes=0", "nettyMaxFrameSizeBytes is '0' ({origin}), at least 65536"),
        ("nettyMaxFrameSizeBytes=4294967296", "nettyMaxFrameSizeBytes is '4294967296' ({origin}), at most 2147483647"),
    ],
)
def test_a_value_that_is_none_is_told_with_the_kind_or_the_bound_that_is_wanted(
    line: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(errors.BadInput) as refused:
        build(load(f"{line}\n{NEEDED}", folder=tmp_path))

    assert told.format(origin=f"{tmp_path}/bk.conf:1") in str(refused.value)


@pytest.mark.parametrize("key", ["diskUsageThreshold", "diskUsageWarnThreshold", "diskUsageLwmThreshold"])
def test_a_share_that_is_none_is_told_by_its_own_name(key: str, tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match=f"{key} is 95.0, a share of the disk"):
        build(load(f"{key}=95\n{NEEDED}", folder=tmp_path))


@pytest.mark.parametrize(
    ("lines", "doubt"),
    [
        ("zkTimeout=30", "zkTimeout=30 is milliseconds: no metadata store answers in so short a time"),
        ("gcWaitTime=900", "gcWaitTime=900 is milliseconds: the metadata store is asked for every ledger that often"),
        ("tlsKeyStore=/k", "tlsKeyStore does nothing without tlsProviderFactoryClass: nothing is encrypted"),
        ("tlsClientAuthentication=true", "tlsClientAuthentication does nothing without tlsProviderFactoryClass"),
        (
            f"{NEEDED}allowSharedFilesystem=/a/",
            "allowSharedFilesystem names /a/, which is written like that in no other",
        ),
    ],
)
def test_what_may_well_not_be_meant_is_warned_of(lines: str, doubt: str, tmp_path: Path) -> None:
    (warning,) = load(f"{lines}\n", folder=tmp_path).warnings

    assert doubt in warning


@pytest.mark.parametrize(
    "lines",
    [
        "zkTimeout=1000",
        "tlsClientAuthentication=false",
        f"{NEEDED}allowSharedFilesystem=/a,/x",
        "tlsKeyStore=/k\ntlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory",
    ],
)
def test_what_is_clear_is_not_warned_of(lines: str, tmp_path: Path) -> None:
    assert load(f"{lines}\n", folder=tmp_path).warnings == ()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"zone=a\n# caf\xe9\n", "is no text in UTF-8 (line 2, byte 0xe9)"),
        ("zone=a\n".encode("utf-16"), "is no text in UTF-8 (line 1, byte 0xff)"),
        (b"\x7fELF\x02\x01\x01\0\0", "has a zero byte in line 1"),
        (b"zone=a\nbookieId=b\0c\n", "has a zero byte in line 2"),
    ],
)
def test_a_file_that_is_no_text_is_told_with_the_place(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "bk.conf").write_bytes(data)

    with pytest.raises(errors.BadInput) as refused:
        load("", "--config", f"{tmp_path}/bk.conf")

    assert str(refused.value).startswith(f"settings file {tmp_path}/bk.conf {told}")


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_file_from_another_system_says_the_same(start: bytes, end: bytes, tmp_path: Path) -> None:
    """The mark before the first name would make another name of it: bookieId, say, which stands for ever."""
    (tmp_path / "bk.conf").write_bytes(start + end.join([b"bookieId=b-7", b"zone=a", b""]))

    loaded = load("", "--config", f"{tmp_path}/bk.conf")

    assert (loaded.text("bookieId"), loaded.text("zone"), loaded.warnings) == ("b-7", "a", ())
    assert loaded.values["zone"].origin == f"{tmp_path}/bk.conf:2"


def test_a_line_that_is_not_understood_may_hold_a_password_and_is_not_shown_whole(tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput) as refused:
        load(f"tlsKeyStorePassword hunter2\n{'x' * 300}\n", folder=tmp_path)

    assert "bk.conf:1: 'tlsKeyStorePassword' ... is not of the form name=value" in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert "x" * 41 not in str(refused.value)


def test_ports_that_nobody_asked_for_follow_the_data_port_and_give_way(tmp_path: Path) -> None:
    def ports(lines: str) -> tuple[int, int]:
        built = build(load(f"{NEEDED}{lines}\n", folder=tmp_path))
        return built.admin.port, built.metrics.port

    assert ports("bookiePort=3181") == (13181, 23181)
    assert ports("bookiePort=3182") == (13182, 23182)  # another bookie of this machine, with the same file
    assert ports("bookiePort=0") == (0, 0)
    assert ports("bookiePort=60000") == (0, 0)
    assert ports("bookiePort=3181\nadminPort=3182\nmetricsPort=9100") == (3182, 9100)
    assert ports("bookiePort=3181\nadminPort=23181") == (23181, 0)
    assert ports("bookiePort=3181\nhttpServerEnabled=true\nhttpServerPort=13181") == (0, 23181)


def test_a_remark_behind_a_value_is_named_as_what_is_wrong_with_it(tmp_path: Path) -> None:
    with pytest.raises(
        errors.BadInput, match="a remark stands on a line of its own, behind a value it belongs to that"
    ):
        build(load(f"{NEEDED}tlsRequired=true   # nothing in plain\n", folder=tmp_path))


def test_the_key_that_signs_losses_is_read_where_one_is_set(tmp_path: Path) -> None:
    path = write_private(tmp_path / "key", ANN)

    signs = build(load(f"{NEEDED}lossSigningKeyFile={path}\n", folder=tmp_path)).options
    signs_not = build(load(NEEDED, folder=tmp_path)).options

    assert signs.loss_key is not None
    assert signs.loss_key.fingerprint == fingerprint(ANN)
    assert signs_not.loss_key is None


def test_a_key_that_cannot_sign_is_told_with_all_else_that_is_wrong(tmp_path: Path) -> None:
    wrong = load(f"{NEEDED}lossSigningKeyFile=/nowhere\ntlsRequired=true\n", folder=tmp_path)

    with pytest.raises(errors.BadInput, match=r"TLS is required, .*; lossSigningKeyFile \(.*:5\) /nowhere cannot be"):
        build(wrong)
