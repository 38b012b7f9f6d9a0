"""Passwords stand in no error, no `repr` and nothing that travels: options reach plans, the UI and event logs."""

import os
import pickle
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.runtime import given_file
from pyspark_bookkeeper import DefaultSource, client_settings, options, planning

URI = "zk+hierarchical://127.0.0.1:2181/ledgers"
SECRET = "hunter2"


def parse(**given: str) -> options.SourceOptions:
    return options.parse({"metadataServiceUri": URI, **given})


@pytest.mark.parametrize("secret", [SECRET, f"pass/{SECRET}", f"/{SECRET}/none", f"{SECRET}\0", f"{SECRET}\ud800"])
def test_a_password_in_place_of_its_files_name_is_not_shown(secret: str) -> None:
    for name in ("passwordFile", "passwordEnv"):
        with pytest.raises(errors.BadInput, match=name) as caught:
            planning.read_password(parse(**{name: secret}), {})
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
    sasl = {"bookkeeper.client.saslUser": "app", "bookkeeper.client.saslPasswordFile": secret}
    with pytest.raises(errors.BadInput, match="saslPasswordFile") as caught:
        client_settings.client_options(parse(**sasl).client)
    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there_is_named_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match=f"passwordFile: {tmp_path}/gone cannot be read here: No such file"):
        planning.read_password(parse(passwordFile=str(tmp_path / "gone")), {})
    with pytest.raises(errors.BadInput, match="the environment variable LEDGER_PASSWORD is not set"):
        planning.read_password(parse(passwordEnv="LEDGER_PASSWORD"), {})


def test_no_query_waits_for_ever_for_a_file_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_file, "PATIENCE_S", 0.01)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    parquet = tmp_path / "ids.parquet"
    os.mkfifo(parquet)
    sasl = {"bookkeeper.client.saslUser": "app", "bookkeeper.client.saslPasswordFile": str(pipe)}

    with pytest.raises(errors.BadInput, match=r"passwordFile: .*/pipe cannot be read here: it is a pipe, and nobody"):
        planning.read_password(parse(passwordFile=str(pipe)), {})
    with pytest.raises(
        errors.BadInput, match=r"saslPasswordFile: .*/pipe cannot be read here: it is a pipe, and nobody"
    ):
        client_settings.client_options(parse(**sasl).client)
    for path, reason in ((pipe, "it is a pipe, and nobody"), (parquet, "it is a pipe, and Parquet is read from")):
        with pytest.raises(errors.BadInput, match=f"ledgerIdsFrom: .*{path.name} cannot be used: {reason}"):
            next(planning.select(parse(ledgerIdsFrom=str(path)), {}))


def test_a_list_of_ids_may_be_longer_than_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    path.write_text("7" + "\n" * given_file.BYTES_MAX + "8\n")

    assert planning._ids_in(str(path)) == [7, 8]


@pytest.mark.parametrize(
    "given",
    [
        {"password": SECRET},
        {"Password": SECRET},
        {"bookkeeper.client.saslPassword": SECRET},
        {"bookkeeper.client.sasl_password": SECRET},
        {"bookkeeper.client.tlsKeyStorePassword": SECRET},
        {"metadataServiceUri": f"zk+hierarchical://app:{SECRET}@127.0.0.1:2181/ledgers"},
        {"metadataServiceUri": f"http://app:{SECRET}@127.0.0.1/ledgers"},
    ],
)
def test_a_password_as_an_option_is_refused_and_not_shown(given: dict[str, str]) -> None:
    with pytest.raises(errors.BadInput) as caught:
        parse(**given)

    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)


def test_what_travels_to_tasks_has_no_content_of_a_password_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(SECRET)
    source = DefaultSource({"metadataserviceuri": URI, "passwordfile": str(path)})
    reader = source.reader(source.schema())

    assert SECRET.encode() not in pickle.dumps(reader)
    assert SECRET not in repr(reader)
    assert SECRET not in repr(parse(passwordFile=str(path)))
