"""What a query may say, and how it is told that it said something else (docs/PIPELINE.md, "Options")."""

import re
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.ports.metadata_store import MetadataSecurity
from bookie.ports.tls import TlsOptions
from pyspark_bookkeeper import client_settings, options
from pyspark_bookkeeper.offsets import EARLIEST, LATEST, Offsets
from pyspark_bookkeeper.options import OnCorrupt, SourceOptions, View
from pyspark_bookkeeper.ranges import Range

URI = "zk+hierarchical://127.0.0.1:2181/ledgers"


def parse(**given: str) -> SourceOptions:
    """As Spark hands them over: names in lower case."""
    return options.parse({"metadataserviceuri": URI, **{name.lower(): text for name, text in given.items()}})


def refusal(**given: str) -> str:
    with pytest.raises(errors.BadInput) as caught:
        parse(**given)
    return str(caught.value)


def test_the_uri_alone_reads_every_entry_of_every_ledger() -> None:
    found = parse()

    assert found.metadata_uri == URI
    assert found.view is View.ENTRIES
    assert found.ledgers is None
    assert (found.starting_offsets, found.ending_offsets) == (Offsets(EARLIEST), Offsets(LATEST))
    assert found.on_corrupt is OnCorrupt.FAIL
    assert found.fail_on_data_loss


@pytest.mark.parametrize("text", ["1,5-9", " 1 , 5 - 9 "])
def test_ledgers_are_ids_and_inclusive_ranges(text: str) -> None:
    found = parse(ledgers=text)

    assert found.ledgers == (Range(1, 2), Range(5, 10))


def test_ledgers_may_be_a_json_list() -> None:
    assert parse(ledgers="[3, 4]").ledgers == (Range(3, 4), Range(4, 5))


@pytest.mark.parametrize("text", ["", "x", "1,,2", "-1", "9-5", "1-", '["a"]', "[true]", "[1", str(2**63)])
def test_what_is_no_list_of_ledgers_is_refused(text: str) -> None:
    assert refusal(ledgers=text).startswith("bookkeeper source: ledgers: ")


def test_offsets_are_given_by_ledger_and_by_word() -> None:
    found = parse(startingOffsets='{"17": 120, "18": -2}', endingOffsets="latest")

    assert [found.starting_offsets.of(ledger) for ledger in (17, 18, 19)] == [120, EARLIEST, EARLIEST]  # type: ignore[arg-type]
    assert found.ending_offsets.of(17) == LATEST  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"1": -1}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"1": -2}'),
    ],
)
def test_offsets_that_would_read_nothing_are_refused(name: str, text: str) -> None:
    assert "is empty" in refusal(**{name: text})


@pytest.mark.parametrize("text", ["first", "[1]", '{"1": "2"}', '{"1": true}', '{"1": -3}', '{"x": 1}', '{"1": 1.5}'])
def test_what_is_no_offset_is_refused(text: str) -> None:
    assert refusal(startingOffsets=text).startswith("bookkeeper source: startingOffsets: ")


def test_a_timestamp_is_milliseconds_or_iso_8601() -> None:
    assert parse(startingTimestamp="1500").starting_timestamp_ms == 1500
    assert parse(startingTimestamp="1970-01-01T00:00:02").starting_timestamp_ms == 2000
    assert parse(startingTimestamp="1970-01-01T02:00:00+02:00").starting_timestamp_ms == 0
    assert "neither milliseconds" in refusal(startingTimestamp="yesterday")


def test_a_filter_is_pairs_that_must_all_hold() -> None:
    assert parse(ledgerFilter="app=orders, env=prod").ledger_filter == (("app", b"orders"), ("env", b"prod"))
    assert "key=value" in refusal(ledgerFilter="app")


@pytest.mark.parametrize(
    "name", ["minPartitions", "maxEntriesPerPartition", "maxBytesPerPartition", "maxBytesPerBatch"]
)
@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_sizes_are_positive_numbers(name: str, text: str) -> None:
    assert f"{name}: {text!r} is not a positive number" in refusal(**{name: text})


@pytest.mark.parametrize(
    ("given", "meant"),
    [("ledger", "ledgers"), ("startingOfset", "startingOffsets"), ("maxBytesPerPartitions", "maxBytesPerPartition")],
)
def test_a_misspelt_option_is_refused_with_the_nearest_name(given: str, meant: str) -> None:
    assert f"there is no option {given.lower()} (did you mean {meant}?)" in refusal(**{given: "1"})


def test_an_option_like_no_other_is_refused_with_all_names() -> None:
    assert "there is no option zzz (there are columns, endingOffsets," in refusal(zzz="1")


def test_a_misspelt_value_is_refused_with_the_nearest_one() -> None:
    assert "view: 'ledger' is none of entries, ledgers, bookies, replicas (did you mean ledgers?)" in refusal(
        view="ledger"
    )


def test_a_missing_uri_is_told_with_an_example() -> None:
    with pytest.raises(errors.BadInput, match=r"metadataServiceUri is missing .*zk\+hierarchical://"):
        options.parse({})


def test_a_uri_that_is_none_is_refused() -> None:
    with pytest.raises(errors.BadInput, match="not of the form"):
        options.parse({"metadataServiceUri": "127.0.0.1:2181"})


@pytest.mark.parametrize(
    "given",
    [
        {"ledgers": "1", "ledgerFilter": "a=b"},
        {"ledgers": "1", "ledgerIdsFrom": "ids.txt"},
        {"startingTimestamp": "1", "startingOffsets": "earliest"},
        {"passwordFile": "a", "passwordEnv": "B"},
    ],
)
def test_options_that_contradict_each_other_are_refused_by_name(given: dict[str, str]) -> None:
    first, second = sorted(given, key=lambda name: name)

    said = refusal(**given)

    assert first in said
    assert second in said
    assert "contradict" in said


def test_an_offset_of_a_ledger_that_is_not_read_is_refused() -> None:
    assert "endingOffsets names ledger 9, which ledgers leaves out" in refusal(
        ledgers="1-8,10", startingOffsets='{"10": 5}', endingOffsets='{"9": 5}'
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ledgers": "[" * 100_000}, "ledgers: .*is not a list of ledger ids"),
        ({"ledgers": "[1,"}, "ledgers: '\\[1,' is not a list of ledger ids like"),
        ({"ledgers": "[-1]"}, "ledgers: '\\[-1\\]' is not a list of ledger ids like"),
        ({"ledgers": "[" + "9" * 5_000 + "]"}, "ledgers: .*5002 characters.* is not a list"),
        ({"startingOffsets": '{"a":' * 100_000}, "startingOffsets: .*500000 characters.* is neither"),
        ({"endingOffsets": '{"17": 1, "17": 5}'}, "endingOffsets: .* names ledger 17 twice"),
        ({"endingOffsets": '{"17": 1, "017": 5}'}, "endingOffsets: .* names ledger 17 twice"),
        ({"endingOffsets": '[["17", 1]]'}, "endingOffsets: .* is neither"),
        ({"startingTimestamp": "20260131"}, "startingTimestamp: 20260131 milliseconds are in the year 1970: say it"),
        ({"startingTimestamp": "1769860800"}, "startingTimestamp: 1769860800 milliseconds are in the year 1970"),
        ({"minPartitions": "9" * 5_000}, "minPartitions: .*5000 characters.* is not a positive number below"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name_and_not_repeated_at_length(
    given: dict[str, str], said: str
) -> None:
    told = refusal(**given)

    assert re.search(said, told)
    assert len(told) < 400


def test_the_view_of_bookies_takes_no_option_that_chooses_ledgers() -> None:
    """It took them, and showed all bookies."""
    assert "ledgers, startingTimestamp cannot be used with view=bookies" in refusal(
        view="bookies", ledgers="7", startingTimestamp="2026-01-31"
    )


def test_a_metadata_view_takes_no_option_about_entries() -> None:
    assert "startingOffsets, onCorrupt cannot be used with view=bookies" in refusal(
        view="bookies", onCorrupt="skip", startingOffsets="earliest"
    )


def test_a_password_as_an_option_is_refused_and_not_repeated() -> None:
    said = refusal(password="hunter2")

    assert "passwordFile" in said
    assert "hunter2" not in said


def test_load_with_a_path_is_told_where_the_cluster_is_named() -> None:
    assert "load() takes no path" in refusal(path="ledgers")


def test_all_problems_are_told_at_once() -> None:
    said = refusal(ledger="1", minPartitions="0", view="x", passwordFile="a", passwordEnv="b")

    assert said.count(";") == 3


def test_client_settings_pass_through() -> None:
    found = options.parse({"metadataServiceUri": URI, "bookkeeper.client.requestTimeoutMs": "7000"})

    assert found.connection == options.ClusterConnection(URI, (("request_timeout_ms", 7000),))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("requestTimeoutMss", "1", "requesttimeoutmss is no setting (did you mean requestTimeoutMs?)"),
        ("requestTimeoutMs", "soon", "'soon' is not a number"),
        (
            "longPollMs",
            "9000",
            "client.longPollMs (9000) must be less than bookkeeper.client.requestTimeoutMs",
        ),
        ("requestTimeoutMs", "0", "bookkeeper.client.requestTimeoutMs must be 1 to 2147483647, not 0"),
        ("batchReads", "maybe", "batchReads: 'maybe' is neither true nor false"),
        ("saslUser", "spark", "bookkeeper.client.saslPasswordFile: give both or neither"),
        ("saslPassword", "hunter2", "did you mean saslPasswordFile?"),
        ("tlsTrustStoreType", "ZIP", "tlsTrustStoreType is 'ZIP', one of PEM"),
    ],
)
def test_client_settings_that_the_client_refuses_are_refused_here(name: str, text: str, said: str) -> None:
    assert said in refusal(**{f"bookkeeper.client.{name}": text})


def test_encryption_and_identity_pass_through_as_names_of_files(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("hunter2\n")
    found = parse(
        **{
            "bookkeeper.client.tlsTrustStore": "ca.pem",
            "bookkeeper.client.tlsHostnameVerificationEnabled": "false",
            "bookkeeper.client.saslUser": "spark",
            "bookkeeper.client.saslPasswordFile": str(path),
        }
    )

    assert "hunter2" not in repr(found)
    read = client_settings.client_options(found.connection.client)
    assert read["tls"] == TlsOptions(trust_store="ca.pem", checks_host_name=False)
    assert (read["sasl_user"], read["sasl_password"].reveal()) == ("spark", "hunter2")
    with pytest.raises(errors.BadInput, match=r"saslPasswordFile: .*gone cannot be read here: No such file"):
        client_settings.client_options((("sasl_password_file", str(tmp_path / "gone")), ("sasl_user", "spark")))


def test_the_metadata_store_s_security_comes_from_a_file_and_stands_in_no_option(tmp_path: Path) -> None:
    (tmp_path / "digest").write_text("spark:hunter2")
    path = tmp_path / "metadata.conf"
    path.write_text(f"zkDigestFile={tmp_path}/digest\nzkTlsEnabled=true\nzkTlsTrustStore=/ca.pem\n")
    found = parse(**{"bookkeeper.client.metadataSettingsFile": str(path)})

    assert "hunter2" not in repr(found)
    read = client_settings.client_options(found.connection.client)["metadata_security"]
    assert read == MetadataSecurity(digest=Secret("spark:hunter2"), tls=TlsOptions(trust_store="/ca.pem"))
    assert "hunter2" not in repr(read)
    with pytest.raises(errors.BadInput, match="gone"):
        client_settings.client_options((("metadata_settings_file", str(tmp_path / "gone")),))
