"""What is checked before Spark is started, so that nobody waits ten seconds for a wrong answer."""

import sys
from pathlib import Path

import pytest

from bookie.base import errors
from pyspark_bookkeeper import session


def program(folder: Path, lines: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return str(path)


def test_the_python_that_runs_us_will_do() -> None:
    session.check_python(sys.executable)


def test_a_python_of_another_version_is_told(tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match=r"Python 3\.7, and the driver runs 3\.\d+: unset it, or name"):
        session.check_python(program(tmp_path, "echo 3.7"))


def test_a_python_without_our_package_is_told_with_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match=r"lacks this package \(No module named 'pyarrow'\)"):
        session.check_python(program(tmp_path, "echo 'No module named '\"'pyarrow'\" >&2; exit 1"))


def test_a_python_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match=r"none, which cannot be run \(No such file or directory\)"):
        session.check_python(str(tmp_path / "none"))


def test_a_missing_java_is_told_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(errors.BadInput, match="neither on PATH nor in JAVA_HOME: install it"):
        session.check_java()

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(errors.BadInput, match="where there is no bin/java: correct it"):
        session.check_java()
