"""What a tired person types: each is told in one sentence with its exit code, without a traceback, and nothing is
half-done."""

import argparse
import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bookie.base import errors
from bookie.cli import main, node, output, settings, where, workload
from bookie.cli import test as speed
from bookie.local import layout
from bookie.ports.admin import DrainStatus
from bookie.runtime import given_file, loop
from bookie.workload import supervisor
from tls_support import Authority

FILE, FOLDER, NOWHERE, UNSEEN = "a file", "a folder", "nothing", "what nobody sees"
ZOOKEEPER = ["--metadata-service-uri", "zk://h/l"]


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "file").write_text("text")
    (tmp_path / "loop").symlink_to("loop")  # as a folder that we may not look into: also for root, who may
    return {
        FILE: str(tmp_path / "file"),
        FOLDER: str(tmp_path),
        NOWHERE: str(tmp_path / "nowhere"),
        UNSEEN: str(tmp_path / "loop" / "unseen"),
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        *(
            (["inspect", verb, FOLDER, "--ledger", number, *more], 2, f"ledger id '{number}' is not a number")
            for verb, more in (("journal", []), ("entry-log", ["0"]), ("index", []), ("ledgers", []))
            for number in ("abc", "-1")
        ),
        *(
            (["node", "show", "--admin", f"127.0.0.1:{port}"], 2, f"names port {port}: it must be 1 to 65535")
            for port in (0, 65_536, 99_999)
        ),
        *(
            (["inspect", *verb, place, *more], code, said)
            for place, code, said in (
                (FILE, 2, "file is no directory: name one of the bookie's settings"),
                (NOWHERE, 3, "nowhere: name one of the bookie's settings"),
            )
            for verb, more in (
                *(([verb], []) for verb in ("directory", "journal", "entry-logs", "index", "ledgers")),
                (["entry-log"], ["0"]),
                (["entry"], ["0", "0"]),
                (["entry-logs", FOLDER, "--index"], []),
            )
        ),
        (["node", "drain", "--admin", "h:1", "--bytes-per-second", str(2**63)], 2, f"--bytes-per-second is {2**63}: "),
        *(
            (["node", "show", "--admin", address], 2, f"{address!r} names no admin port: give HOST:PORT, or unix:PATH")
            for address in ("foo", "1", ":1", "h:", "127.0.0.1:-1", "unix:", "\udcff:1", "unix:\udcff")
        ),
        (["metadata", "show", "--file", FOLDER], 2, "cannot be read: Is a directory: name another file"),
        (["metadata", "show", "--file", NOWHERE], 2, "cannot be read: No such file or directory: name another file"),
        (["metadata", "show", "--file", "/dev/null"], 2, "/dev/null is empty: name another file"),
        (["metadata", "show", "--file", FILE], 2, "/file: the record is not ledger metadata: it begins with b'text'"),
        (["metadata", "restore", "7", FILE, "--yes"], 2, "/file: the record is not ledger metadata: it begins with"),
        *(
            (
                ["autorecovery", "run", *ZOOKEEPER, f"--{flag}", value],
                2,
                f"bookie: --{flag} is {value}: it must be {least} to",
            )
            for flag, value, least in (
                ("loss-delay", "-1", 0),
                ("loss-delay", str(2**31), 0),
                ("audit-interval", "0", 1),
                ("check-interval", "-1", 0),
                ("probe-interval", "-1", 0),
                ("open-ledger-grace", "-1", 0),
                ("bytes-per-second", "-1", 0),
                ("ledgers-at-once", "0", 1),
                ("check-rate", "0", 1),
            )
        ),
        *(
            (["local", "--data", "/dev/null/x", "--bookies", number], 2, f"--bookies is {number}: it must be 1 to 100")
            for number in ("0", "101", str(10**24))
        ),
        (["metadata", "restore", "7", "/dev/null", "--yes"], 2, "/dev/null is empty: name another file"),
        (["metadata", "acl", "--metadata-service-uri", "zk://h/l", "--yes"], 2, "--yes is for --fix: "),
        (["workload", "stop", "--log", "/proc"], 3, "no run on /proc is there to be stopped: name the folder that"),
        (
            ["workload", "write", *ZOOKEEPER, "--log", "/proc", "--plans=steady", "--rate=1", "--entries-per-ledger=1"],
            1,
            "make room there, or name another --log",
        ),
        (
            ["ledger", "read", "3", "--passwort=x"],
            2,
            "does not know --passwort=x: did you mean --password? bookie ledger",
        ),
        (["ledger", "show", "3", "4"], 2, "`bookie ledger show` does not know 4: bookie ledger show --help shows"),
        (
            ["ledger", "show", "3", "json"],
            2,
            "does not know json: did you mean --json? bookie ledger show --help shows",
        ),
        (["autorecovery", "delay", "soon"], 2, "`bookie autorecovery delay` does not know soon: bookie autorecovery"),
        (["ledger", "--deep", "show", "3"], 2, "`bookie ledger` does not know --deep: bookie ledger --help shows"),
        ([], 2, "`bookie`: the following arguments are required: COMMAND: bookie --help shows"),
        (["clustre"], 2, "`bookie` does not know clustre: did you mean cluster? bookie --help shows"),
        (["ledger", "lst"], 2, "`bookie ledger` does not know lst: did you mean list? bookie ledger --help shows"),
        (
            ["ledger", "accept-loss", "1"],
            2,
            "`bookie ledger accept-loss`: the following arguments are required: --book",
        ),
        (["ledger", "create", "--digest", "FOO"], 2, "--digest FOO: it must be one of CRC32C, HMAC, CRC32, DUMMY"),
        *(
            (["ledger", "read", "3", "--first", number], 2, f"--first: '{number}' is no whole number: bookie ledger")
            for number in ("1_0", " 1", "0x1", "٣", "1.0", "+1", "-")
        ),
        (["ledger", "show", "3", "--password", "x"], 2, "`bookie ledger show` does not know --password x: "),
        (["ledger", "delete", "3", "--password", "x", "--yes"], 2, "does not know --password x: "),
        *(
            (words, 2, "/unseen cannot be looked at: Too many levels of symbolic links: run this as the user whose it")
            for words in (
                ["inspect", "directory", UNSEEN],
                ["inspect", "entry-logs", FOLDER, "--index", UNSEEN],
                ["workload", "verify", *ZOOKEEPER, "--log", UNSEEN],
                ["workload", "stop", "--log", UNSEEN],
            )
        ),
        (["workload", "verify", *ZOOKEEPER, "--log", FILE], 2, "file is no folder: name the one that `run --log` had"),
        (["workload", "stop", "--log", NOWHERE], 3, "there is no folder "),
        (["workload", "stop", "--log", FILE], 3, "name the one that `run --log` had"),
        (["workload", "run", "--metadata-service-uri", "zk://h/l", "--log", FILE], 2, "can be no folder: File exists"),
        (
            ["workload", "run", "--metadata-service-uri", "zk://h/l", "--log", "/dev/null/x"],
            2,
            "can be no folder: Not a",
        ),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_sentence(
    places: dict[str, str], capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main.main([places.get(word, word) for word in words]) == code

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bookie")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cookie", "create", "b:1", NOWHERE, "--yes"], "nowhere cannot be read: No such file"),
        (["cookie", "create", "b:1", FILE, "--yes"], "/file: "),
        (["cookie", "create", "b/1", FILE, "--yes"], "bookie id 'b/1'"),
        (["cookie", "show", "b/1"], "bookie id 'b/1'"),
        (["cookie", "delete", "b/1", "--yes"], "bookie id 'b/1'"),
        (["cookie", "check"], "add --config FILE"),
        (["cookie", "generate"], "add --config FILE"),
        *((["ledger", verb, "x"], "ledger id 'x'") for verb in ("read", "show", "recover", "delete", "check")),
        (["ledger", "accept-loss", "x", "--bookie", "b:1", "--reason", "r"], "ledger id 'x'"),
        (["ledger", "accept-loss", "1", "--bookie", "b/1", "--reason", "r"], "bookie id 'b/1'"),
        (["ledger", "read", "1", "--bookie", "b/1"], "bookie id 'b/1'"),
        (["ledger", "list", "--naming", "b/1"], "bookie id 'b/1'"),
        (["ledger", "create", "--custom", "x"], "--custom 'x' is not of the form"),
        (["ledger", "write", "--custom", "x"], "--custom 'x' is not of the form"),
        (["ledger", "create", "--custom", "k=1", "--custom", "k=2"], "--custom names 'k' twice"),
        (["ledger", "accept-loss", "1", "--bookie", "b:1", "--reason", "r", "--entries", "3-"], "--entries 3-: give"),
        *((["metadata", verb, "x"], "ledger id 'x'") for verb in ("show", "dump")),
        (["metadata", "restore", "x", FILE], "ledger id 'x'"),
        *((["cluster", verb, "b/1"], "bookie id 'b/1'") for verb in ("references", "recover-bookie", "decommission")),
        (["cluster", "recover-bookie", "b:1", "--ledger", "x"], "ledger id 'x'"),
        *((["test", verb, "--custom", "x"], "--custom 'x' is not of the form") for verb in ("sanity", "speed")),
        (["test", "sanity", "--bookie", "b/1"], "bookie id 'b/1'"),
        (["autorecovery", "explain", "x"], "ledger id 'x'"),
        (["autorecovery", "maintenance", "b/1", "--end"], "bookie id 'b/1'"),
        (["autorecovery", "list", "--missing", "b/1"], "bookie id 'b/1'"),
        (["workload", "fenced", "--bookie", "b/1", "--ledgers", "1"], "bookie id 'b/1'"),
    ],
)
def test_what_can_be_judged_is_judged_before_the_metadata_store_is_asked(
    places: dict[str, str], capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """Nobody is at that address: a word about it means that a person waited for ten seconds first."""
    nobody = ["--metadata-service-uri", "zk://127.0.0.1:1/ledgers"]

    assert main.main([*words[:2], *nobody, *(places.get(word, word) for word in words[2:])]) == 2

    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["settings", "show", "--config"],
        ["serve", "--config"],
        ["cluster", "show", "--config"],
        ["node", "show", "--config"],
        ["metadata", "show", "--file"],
        ["metadata", "restore", *ZOOKEEPER, "7"],
        ["workload", "verify", *ZOOKEEPER, "--log"],
    ],
)
def test_no_verb_waits_for_ever_for_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(given_file, "PATIENCE_S", 0.01)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert main.main([*words, str(pipe)]) == 2

    err = capsys.readouterr().err
    assert f"{pipe} " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("is_uri_first", [True, False])
def test_a_settings_file_that_can_be_read_once_is_read_once(
    monkeypatch: pytest.MonkeyPatch, is_uri_first: bool
) -> None:
    """As `--config <(command)`: the second look found nothing, so no cluster, or no identity."""
    monkeypatch.delenv(where.URI_VARIABLE, raising=False)
    reading, writing = os.pipe()
    os.write(writing, b"metadataServiceUri=zk://h/l\nzkEnableSecurity=true\n")
    os.close(writing)
    arguments = main.parser_for(["ledger"]).parse_args(["ledger", "list", "--config", f"/dev/fd/{reading}"])

    uri_first = where.uri_of(arguments) if is_uri_first else ""
    loaded = settings.load(arguments)
    uri = where.uri_of(arguments)

    assert (uri_first or uri, uri) == ("zk://h/l", "zk://h/l")
    assert loaded.is_true("zkEnableSecurity")
    os.close(reading)


def test_a_pipe_that_nobody_reads_takes_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(errors.BadInput, match="pipe cannot be written: nobody reads this pipe: name another file"):
        output.write(tmp_path / "pipe", b"bytes")


def test_what_we_may_not_look_at_is_not_called_absent(places: dict[str, str], tmp_path: Path) -> None:
    """A cluster may be made only where no directory holds data; a cookie is missing only where there is none."""
    settings_file = tmp_path / "bk.conf"
    settings_file.write_text(f"ledgerDirectories={places[UNSEEN]}\n")
    beside = argparse.Namespace(config=settings.SettingsFile(settings_file))

    for look in (
        lambda: where.data_beside(beside),
        lambda: output.read_if_there(Path(places[UNSEEN])),
        lambda: output.is_there(places[UNSEEN]),
    ):
        with pytest.raises(errors.BadInput, match="cannot be looked at"):
            look()
    assert output.read_if_there(Path(places[FILE])) == b"text"
    assert output.read_if_there(Path(places[NOWHERE])) is None
    assert output.read_if_there(Path(places[FILE]) / "below") is None


def test_who_names_no_bookie_is_told_where_one_was_looked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(where.SOCKET_VARIABLE, raising=False)
    monkeypatch.setattr(where, "DEFAULT_ADMINS", ("127.0.0.1:1", "127.0.0.1:2"))

    assert main.main(["node", "show"]) == 1

    assert capsys.readouterr().err == (
        "bookie: no bookie is named, and none answers at 127.0.0.1:1 or 127.0.0.1:2: add --admin HOST:PORT, its admin"
        " port, or --config FILE, its settings file, or set BOOKIE_ADMIN_SOCKET\n"
    )


ORDERS = ["--metadata-service-uri", "zk://h/l", "--log", FOLDER]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(
            (["workload", "run", *ORDERS, flag, value], f"{flag} is {shown}: it must be more than 0 and less than")
            for flag, value, shown in (
                ("--rate", "0", "0"),
                ("--rate", "-1", "-1"),
                ("--rate", "nan", "nan"),
                ("--rate", "inf", "inf"),
                ("--entries-per-ledger", "0", "0"),
                ("--entries-per-ledger", str(10**30), "1e+30"),
                ("--kill-every-s", "-1", "-1"),
            )
        ),
        (
            ["workload", "run", "--metadata-service-uri", "foo", "--log", FOLDER],
            "metadata service URI 'foo' is not of the form",
        ),
        (
            ["workload", "write", *ORDERS, "--plans", "nope,steady", "--rate", "1", "--entries-per-ledger", "1"],
            "--plans names nope: there are steady, closing, leaving, doomed",
        ),
        (
            [
                "workload",
                "write",
                *ORDERS[:3],
                NOWHERE,
                *["--plans", "steady", "--rate", "1", "--entries-per-ledger", "1"],
            ],
            "nowhere: `bookie workload run --log` makes it",
        ),
        (["test", "speed", *ORDERS[:2], "--size", str(10**11)], f"--size is {10**11}: an entry must fit a frame"),
        (
            ["test", "speed", *ORDERS[:2], "--entries", str(10**9 + 1)],
            f"--entries is {10**9 + 1}: it must be {10**9} at",
        ),
        (["test", "sanity", *ORDERS[:2], "--entries", str(10**11)], f"--entries is {10**11}: it must be 1000000 at"),
    ],
)
def test_an_order_by_which_nobody_can_write_is_refused_before_anything_is_begun(
    places: dict[str, str], capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main.main([places.get(word, word) for word in words]) == 2

    out, err = capsys.readouterr()
    assert out == "", "no sample of a run"
    assert said in err
    assert err.count("\n") == 1


def test_every_verb_takes_json_but_a_writer_process_and_serve() -> None:
    """`serve` has `logLevel` and no output; a writer process is started by `workload run` alone."""
    lacking = [words for noun in main.COMMANDS for words in without_json(main.parser_for([noun])) if words[0] == noun]

    assert lacking == [("serve",), ("workload", "write")]


def without_json(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command without the flag."""
    verbs = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for name, verb in [each for action in verbs for each in action.choices.items()]:
        yield from without_json(verb, *words, name)
    if not verbs and not any("--json" in action.option_strings for action in parser._actions):
        yield words


def test_a_directory_without_a_journal_is_not_said_to_lack_one_file_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "current").mkdir()

    assert main.main(["inspect", "journal", str(tmp_path)]) == 3

    assert capsys.readouterr().err == (f"bookie: {tmp_path} has no journal file: is it one of journalDirectories?\n")


def flags_of(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command with each of its flags that takes a value."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, verb in action.choices.items():
                yield from flags_of(verb, *words, name)
        elif action.option_strings and action.nargs is None:
            yield (*words, action.option_strings[-1])


def test_a_flag_with_nothing_behind_it_is_not_taken_for_one_that_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`node drain --dead "$BOOKIE"`, with a variable that is not set, would empty the bookie that is asked."""
    nouns = [noun for noun in main.COMMANDS if noun not in ("serve", "settings")]
    found = [("serve", "--config"), ("settings", "show", "--config")]
    for noun in nouns:
        found += [words for words in flags_of(main.parser_for([noun])) if words[0] == noun]
    assert ("node", "drain", "--dead") in found
    for words in found:
        if words[-1] == "--password":  # the password of a ledger that has none
            continue
        for said in ([*words, ""], [*words[:-1], f"{words[-1]}="]):
            assert main.main(said) == 2
            assert capsys.readouterr().err.startswith(f"bookie: an empty word stands behind {words[-1]}: "), said


def test_a_bookie_that_empties_no_other_one_is_not_advised_to_empty_itself(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = argparse.Namespace(json=True, status=True, cancel=False, dead="b-2")

    assert node.tell_drain(arguments, DrainStatus(is_draining=False)) == 6

    assert "`bookie node drain --dead b-2` begins that" in capsys.readouterr().err


def test_a_workload_on_a_log_that_was_stopped_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would end at once with 0, having written nothing."""
    (tmp_path / "stop").touch()

    assert main.main(["workload", "run", "--metadata-service-uri", "zk://h/l", "--log", str(tmp_path)]) == 2

    assert "was told to stop" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [
        (FOLDER, errors.BadInput, "cannot be written: Is a directory: name another file"),
        (FILE + "/x", errors.BadInput, "cannot be written: Not a directory: name another file"),
        (NOWHERE + "/x", errors.BadInput, "cannot be written: No such file or directory: name another file"),
        (
            "/dev/full",
            errors.StorageFailed,
            "cannot be written: No space left on device: what it holds now is not whole",
        ),
    ],
)
def test_a_file_that_cannot_be_written_is_told(
    places: dict[str, str], place: str, error: type[errors.BookieError], said: str
) -> None:
    path = Path(places.get(place, place.replace(FILE, places[FILE]).replace(NOWHERE, places[NOWHERE])))

    with pytest.raises(error, match=said):
        output.write(path, b"bytes")


def test_on_a_disk_that_takes_no_writes_nothing_is_begun_that_would_not_be_whole() -> None:
    def read_only(path: str, flags: int) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    with pytest.raises(errors.BadInput, match="cannot be written: Read-only file system: name another file"):
        output.write(Path("dump"), b"bytes", opener=read_only)


def test_a_fleet_on_a_disk_that_takes_no_writes_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "LOCK").symlink_to("/dev/full")

    done = subprocess.run(
        [sys.executable, "-m", "bookie", "local", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert "make room there, or choose another --data" in done.stderr


@pytest.mark.parametrize("flag", ["--ensemble-size", "--write-quorum", "--ack-quorum"])
@pytest.mark.parametrize("value", ["-1", "0", "1001", str(10**30)])
def test_the_shape_of_a_ledger_is_refused_by_the_flag_that_was_typed(flag: str, value: str) -> None:
    with pytest.raises(errors.BadInput, match=f"{flag} must be 1 to 1000"):
        main.parser_for(["ledger"]).parse_args(["ledger", "create", flag, value])


@pytest.mark.parametrize("place", [FILE, "/dev/null/x"])
def test_a_fleet_wants_a_folder(places: dict[str, str], place: str) -> None:
    path = Path(places.get(place, place))

    with (
        pytest.raises(errors.BadInput, match=f"{path} can be no folder of a fleet: .*choose another --data"),
        layout.held(path),
    ):
        pass


class FullCluster:
    """A writer whose bookies are gone."""

    async def append(self, payload: bytes) -> int:
        raise errors.NotEnoughBookies("no bookie takes the place of b0: start bookies")


def test_a_measurement_that_fails_is_told_as_any_other_command() -> None:
    arguments = argparse.Namespace(entries=100, in_flight=10)
    writer: Any = FullCluster()

    with pytest.raises(errors.NotEnoughBookies, match="start bookies"):
        asyncio.run(speed._write(writer, b"payload", arguments))


def test_a_run_is_not_stopped_because_one_before_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stopped").touch()
    monkeypatch.setattr(supervisor, "SAMPLE_S", 0.001)
    run = supervisor.WorkloadRun(("--no-such-option",), tmp_path, 1, 1)  # its writers end at once
    before = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        assert supervisor.supervise(run, kill_every_s=1, stay=False) is False
    finally:
        for number, handler in before:
            signal.signal(number, handler)

    assert not (tmp_path / "stopped").exists()


def test_a_stop_without_a_run_says_so_at_once_and_stops_none_that_comes(tmp_path: Path) -> None:
    with pytest.raises(supervisor.NoRun):
        supervisor.stop(tmp_path)
    (tmp_path / supervisor.RUN_FILE).touch()  # of one that was killed
    with pytest.raises(supervisor.NoRun):
        supervisor.stop(tmp_path)

    assert not supervisor.was_stopped(tmp_path)


def test_a_stop_of_a_run_that_has_stopped_is_done(tmp_path: Path) -> None:
    (tmp_path / "stopped").touch()

    assert supervisor.stop(tmp_path)


@pytest.mark.parametrize(
    ("more", "said"), [([], "the run on {} had stopped before\n"), (["--json"], '{{"log": "{}", "stopped": true}}\n')]
)
def test_who_stops_what_has_stopped_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    (tmp_path / "stopped").touch()

    assert main.main(["workload", "stop", "--log", str(tmp_path), *more]) == main.DONE

    assert capsys.readouterr() == (said.format(tmp_path), "")


def test_settings_that_can_be_read_once_are_no_run_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its writers are processes of their own: each ended with "cannot be read", while the run told of samples."""
    os.mkfifo(tmp_path / "pipe")
    words = ["workload", "run", *ZOOKEEPER, "--log", str(tmp_path / "log"), "--config"]

    assert main.main([*words, str(tmp_path / "pipe")]) == main.USAGE

    assert capsys.readouterr().err == (
        f"bookie: --config {tmp_path}/pipe is no file that each writer, a process of its own, can read again: write the"
        " settings to a file and name that\n"
    )
    assert not (tmp_path / "log").exists()


def test_writers_are_given_the_file_behind_a_descriptor(tmp_path: Path) -> None:
    """As of `--config /dev/stdin < FILE`: they have no such descriptor."""
    (tmp_path / "settings").write_text("")
    with (tmp_path / "settings").open() as file:
        words = ["workload", "run", *ZOOKEEPER, "--log", "/log", "--config", f"/dev/fd/{file.fileno()}"]
        run = workload.run_of(main.parser_for(words).parse_args(words))

    assert run.cluster[-1] == str(tmp_path / "settings")


def test_a_run_that_is_killed_while_it_stops_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STOP_TIMEOUT_S", 1.0)  # of one that waits all the same
    run = contextlib.ExitStack()
    run.enter_context(supervisor.held(tmp_path))

    with pytest.raises(supervisor.NoRun):
        supervisor.stop(tmp_path, tell=lambda _: run.close())


def test_a_stop_tells_what_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STOP_TIMEOUT_S", 1.0)
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        (tmp_path / "stopped").touch()

    with supervisor.held(tmp_path):
        assert supervisor.stop(tmp_path, tell=tell)

    assert told == [f"the run on {tmp_path} is asked to stop; waiting until its writers have, 2 s at most"]


async def no_step() -> None:
    raise AssertionError("it must not begin")


def test_ctrl_c_before_the_first_step_leaves_no_coroutine_that_was_never_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes while the loop's own library is imported: Python would print a warning above "interrupted"."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=interrupted))
    work = no_step()

    with pytest.raises(KeyboardInterrupt):
        loop.run(work)

    assert work.cr_frame is None, "it is closed"


@pytest.mark.parametrize("first", [-1, 2**63])
def test_a_first_entry_that_no_ledger_has_is_refused(first: int) -> None:
    with pytest.raises(errors.BadInput, match=f"--first is {first}: it must be 0 to {2**63 - 1}$"):
        main.parser_for(["ledger"]).parse_args(["ledger", "read", "7", "--first", str(first)])


@pytest.mark.parametrize("with_certificate", [False, True])
def test_an_admin_port_that_does_not_answer_is_asked_for_in_the_words_of_how_it_was_spoken_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, with_certificate: bool
) -> None:
    # Where TLS is wanted and not spoken, or the other way round, the connection is closed without a word.
    monkeypatch.delenv("BOOKIE_ADMIN_CLIENT_TLS_DIRECTORY", raising=False)
    if with_certificate:
        authority = Authority()
        key, certificate = authority.issue("person").pem(tmp_path)
        for path, name in ((key, "tls.key"), (certificate, "tls.crt"), (authority.pem(tmp_path), "ca.crt")):
            Path(path).rename(tmp_path / name)
        monkeypatch.setenv("BOOKIE_ADMIN_CLIENT_TLS_DIRECTORY", str(tmp_path))
    with socket.socket() as nobody:  # bound, and nobody listens
        nobody.bind(("127.0.0.1", 0))

        assert main.main(["node", "show", "--admin", f"127.0.0.1:{nobody.getsockname()[1]}"]) == main.FAILED

    told = capsys.readouterr().err
    assert (f"vouches for {tmp_path}/tls.crt" in told) is with_certificate
    assert ("is this its adminPort?" in told) is not with_certificate
    assert "BOOKIE_ADMIN_CLIENT_TLS_DIRECTORY" in told
