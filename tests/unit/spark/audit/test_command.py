"""What the audit is told about how to reach the fleet: names of files, never a secret."""

import argparse
import contextlib
import socket
from pathlib import Path

import pytest

from bookie.base import errors
from pyspark_bookkeeper import client_settings
from pyspark_bookkeeper.audit import command

URI = "zk+hierarchical://127.0.0.1:2181/ledgers"


def connection(*client: str) -> object:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    words = [word for text in client for word in ("--client", text)]
    arguments = parser.parse_args(["audit", "--metadata-service-uri", URI, "--output", "/nowhere", *words])
    return command._connection(arguments)


def test_an_empty_word_is_no_folder_to_write_into(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())

    with pytest.raises(SystemExit):
        parser.parse_args(["audit", "--metadata-service-uri", URI, "--output", ""])

    assert "an empty word: name a folder" in capsys.readouterr().err


def test_the_audit_reaches_a_guarded_fleet_as_the_source_does(tmp_path: Path) -> None:
    (tmp_path / "digest").write_text("audit:hunter2")
    (tmp_path / "metadata.conf").write_text(f"zkDigestFile={tmp_path}/digest\n")

    found = connection(f"metadataSettingsFile={tmp_path}/metadata.conf", "tlsTrustStore=/ca.pem")

    assert "hunter2" not in repr(found)
    told = client_settings.client_options(found.client)  # type: ignore[attr-defined]
    assert told["metadata_security"].digest.reveal() == "audit:hunter2"
    assert told["tls"].trust_store == "/ca.pem"


@pytest.mark.parametrize(
    ("text", "told"),
    [("tlsTrustStore", "NAME=VALUE is wanted"), ("saslPassword=hunter2", "did you mean saslPasswordFile")],
)
def test_what_the_library_does_not_know_is_refused(text: str, told: str) -> None:
    with pytest.raises(errors.BadInput, match=told):
        connection(text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--grace-s", "nan"], "--grace-s nan: 0 to 86400 seconds"),
        (["--grace-s", "inf"], "--grace-s inf: 0 to 86400 seconds"),
        (["--grace-s", "-1"], "--grace-s -1: 0 to 86400 seconds"),
        (["--second-look-s", "1e300"], r"--second-look-s 1e\+300: 0 to 86400 seconds"),
        (["--unit-ledgers", "0"], "--unit-ledgers 0: at least 1"),
        (["--wave-units", "0"], "--wave-units 0: at least 1"),
        (["--conf", "spark.driver.memory"], "--conf spark.driver.memory: KEY=VALUE is wanted"),
        (["--conf", "=4g"], "--conf =4g: KEY=VALUE is wanted"),
        (["--ledgers", ""], "--ledgers: ledger id '' .*without --ledgers all are audited"),
        (["--ledgers", "\uff15"], "--ledgers: ledger id '\uff15' is not a number"),
        (["--fail-on", ""], "--fail-on : there are missing"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name_before_anything_is_asked(
    tmp_path: Path, words: list[str], told: str
) -> None:
    """Some were a traceback; an empty --ledgers, as of an unset variable, was an audit of the whole fleet."""
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["audit", "--metadata-service-uri", URI, "--output", str(tmp_path / "new"), *words])

    with pytest.raises(errors.BadInput, match=told):
        arguments.run(arguments)
    assert not (tmp_path / "new").exists()


def test_who_waits_for_the_metadata_store_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was silent for half a minute, and then failed."""
    monkeypatch.setattr(command, "PATIENCE_S", 0.05)
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        uri = f"zk://127.0.0.1:{silent.getsockname()[1]}/ledgers"
        words = ["audit", "--metadata-service-uri", uri, "--output", str(tmp_path / "new")]
        arguments = parser.parse_args([*words, "--client", "sessionTimeoutMs=1500"])

        with pytest.raises(errors.MetadataError, match=r"did not answer within 1\.5 s"):
            arguments.run(arguments)

    assert capsys.readouterr().err.endswith(f"waiting for the metadata store at {uri}, 1.5 s at most\n")
    assert not (tmp_path / "new").exists()
