"""Settings: file, then environment, then flags; each value knows where it came from; problems are told together."""

import argparse
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.cli import settings
from bookie.cli.settings import Settings
from bookie.integrity.options import IntegrityOptions

NEEDED = (
    "journalDirectories=/j\nledgerDirectories=/a,/b\nindexDirectories=/x,/y\n"
    "metadataServiceUri=zk+hierarchical://zk:2181/ledgers\n"
)


def load(
    text: str = "", *flags: str, folder: Path | None = None, environment: dict[str, str] | None = None
) -> Settings:
    parser = argparse.ArgumentParser()
    settings.add_flags(parser)
    words = list(flags)
    if folder is not None:
        (folder / "bk.conf").write_text(text)
        words += ["--config", str(folder / "bk.conf")]
    return settings.load(parser.parse_args(words), environment or {})


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


def test_a_java_bookie_s_file_is_taken_with_its_names(tmp_path: Path) -> None:
    text = (
        "# comment\njournalDirectory=/j\nledgerDirectories=/a\nzkServers=zk:2181\n" + NEEDED[NEEDED.index("metadata") :]
    )

    loaded = load(text, folder=tmp_path)

    assert loaded.server_options().storage.journal_dirs == ("/j",)
    assert loaded.warnings == (f"{tmp_path}/bk.conf:4: zkServers is not a setting of ours, ignored",)


def test_everything_reaches_the_options(tmp_path: Path) -> None:
    text = NEEDED + (
        "bookieId=b-1\nadvertisedAddress=host\nbookiePort=4000\nzone=z\njournalWriteData=false\nzkTimeout=5000\n"
        "regeneration=local\nallowSharedFilesystem=/a,/b\ncopyRateBytesPerSecond=none\n"
    )

    options = load(text, folder=tmp_path).server_options()

    assert (options.bookie_id, options.host, options.port, options.zone) == ("b-1", "host", 4000, "z")
    assert options.session_timeout_ms == 5000
    assert options.storage.journal_write_data is False
    assert options.storage.index_dirs == ("/x", "/y")
    assert options.integrity == IntegrityOptions(
        regeneration="local", volume_proof="none", shared_filesystem_ok=("/a", "/b"), copy_rate_bytes_per_s=None
    )


def test_the_id_is_the_address_unless_it_is_given(tmp_path: Path) -> None:
    options = load(NEEDED + "advertisedAddress=10.0.0.5\n", folder=tmp_path).server_options()

    assert options.bookie_id == "10.0.0.5:3181"


def test_in_a_pod_volumes_must_prove_to_be_mounted(tmp_path: Path) -> None:
    inside = load(NEEDED, folder=tmp_path, environment={"POD_UID": "u-1"})
    told = load(NEEDED + "volumeProof=none\n", folder=tmp_path, environment={"POD_UID": "u-1"})

    assert inside.server_options().integrity.volume_proof == "kubernetes"
    assert inside.host.pod_uid == "u-1"
    assert told.server_options().integrity.volume_proof == "none"


def test_what_is_missing_is_named_with_the_way_to_set_it() -> None:
    with pytest.raises(errors.BadInput, match=r"journalDirectories.*metadataServiceUri.*BOOKIE_LEDGER_DIRECTORIES"):
        load().server_options()


def test_values_that_cannot_be_are_told_together_with_their_origin(tmp_path: Path) -> None:
    text = NEEDED + "bookiePort=many\njournalWriteData=perhaps\n"

    with pytest.raises(errors.BadInput) as caught:
        load(text, folder=tmp_path).server_options()

    assert f"bookiePort is 'many' ({tmp_path}/bk.conf:5)" in str(caught.value)
    assert "journalWriteData is 'perhaps'" in str(caught.value)


def test_a_file_that_is_not_there_and_a_line_that_is_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match="nowhere"):
        load("", "--config", "/nowhere")
    with pytest.raises(errors.BadInput, match=r"bk\.conf:1: 'word' is not of the form name=value"):
        load("word\n", folder=tmp_path)
