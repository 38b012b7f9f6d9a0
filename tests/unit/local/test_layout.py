"""Where a local fleet keeps its things, and that it finds them again."""

from pathlib import Path

import pytest

from bookie.base import errors
from bookie.local import java, layout


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


def test_a_missing_java_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(errors.BadInput, match="openjdk-17-jre-headless"):
        java.find_java()

    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(errors.BadInput, match="JAVA_HOME is /nowhere"):
        java.find_java()
