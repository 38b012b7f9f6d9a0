"""Where a local fleet keeps its things, and that it finds them again."""

import socket
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.local import java, layout
from bookie.runtime import properties
from bookie.settings.table import PORT_MAX


def test_a_fleet_that_is_started_again_has_the_ports_it_had(tmp_path: Path) -> None:
    first = layout.plan(tmp_path, 2, None)
    for bookie in first:
        layout.write_config(bookie, "zk+hierarchical://h:1/ledgers", journal_write_data=False, regeneration="gated")

    again = layout.plan(tmp_path, 3, None)

    assert again[:2] == first
    assert len({bookie.port for bookie in again}) == 3
    assert "journalWriteData=false" in first[0].config.read_text()


def test_ports_follow_the_base_port(tmp_path: Path) -> None:
    ports = [(bookie.port, bookie.admin_port, bookie.metrics_port) for bookie in layout.plan(tmp_path, 2, 4000)]

    assert ports == [(4000, 4001, 4002), (4010, 4011, 4012)]


def test_another_base_port_for_an_old_fleet_is_refused(tmp_path: Path) -> None:
    for bookie in layout.plan(tmp_path, 1, 4000):
        layout.write_config(bookie, "zk+hierarchical://h:1/ledgers", journal_write_data=True, regeneration="gated")

    with pytest.raises(errors.BadInput, match="name for ever"):
        layout.plan(tmp_path, 1, 5000)


@pytest.mark.parametrize(
    ("count", "base_port", "zookeeper_port", "said"),
    [
        (3, 0, None, "--base-port is 0: for 3 bookies it must be 1 to 65513"),
        (3, -5, None, "--base-port is -5"),
        (3, 65514, None, "--base-port is 65514"),
        (3, None, 0, "--zk-port is 0: it must be 1 to 65535"),
        (3, None, 99999, "--zk-port is 99999"),
    ],
)
def test_ports_that_no_fleet_can_have_are_refused(
    count: int, base_port: int | None, zookeeper_port: int | None, said: str
) -> None:
    with pytest.raises(errors.BadInput, match=said):
        layout.check_ports(count, base_port, zookeeper_port)


def test_the_last_ports_that_there_are_can_be_had(tmp_path: Path) -> None:
    layout.check_ports(3, 65513, 65535)

    assert layout.plan(tmp_path, 3, 65513)[-1].metrics_port == PORT_MAX


@pytest.mark.parametrize("name", ["a,b", "a,/b", "${x}", "line\nend", "v\x0btab", "sep\u2028", "bytes\udce4"])
def test_a_folder_that_no_settings_file_can_name_is_refused(name: str) -> None:
    # "a,/b" made a directory of the root: lists are split at commas.
    with pytest.raises(errors.BadInput, match="cannot stand in a bookie's paths"):
        layout.check_folder(Path("/data") / name)


@pytest.mark.parametrize("name", ["with a space", "für uns", "back\\slash", "#1", "a=b", "$x", "{x}", "\U0001f4da"])
def test_a_folder_with_any_other_name_is_named_in_the_settings_as_it_is(tmp_path: Path, name: str) -> None:
    data = tmp_path / name
    layout.check_folder(data)
    bookie = layout.plan(data, 1, 4000)[0]

    layout.write_config(bookie, "zk+hierarchical://h:1/ledgers", journal_write_data=True, regeneration="gated")

    told = {setting: text for setting, text, _ in properties.read(str(bookie.config))}
    assert told["ledgerDirectories"] == str(data / "bookie-1" / "ledgers")


def test_a_port_on_which_another_zookeeper_may_listen_is_refused() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(errors.RefusedToStart, match=f"port {port}: Address already in use: .*--zk-port"):
            layout.check_free(port)

    layout.check_free(port)


def test_a_missing_java_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(errors.BadInput, match="openjdk-17-jre-headless"):
        java.find_java()

    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(errors.BadInput, match="JAVA_HOME is /nowhere"):
        java.find_java()
