"""The tests run on the interpreter that our image has: one that is green on another Python proves nothing about it."""

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RELEASE = Path("/etc/os-release")


def test_the_tests_run_on_the_interpreter_of_the_image() -> None:
    """Where this machine is of the image's Debian and could install it (tools/install.sh): as CI and newcomers do."""
    base = re.search(r"^FROM debian:(\w+)-slim AS python$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M)
    assert base is not None, "Dockerfile: the stage `python` is not made from Debian any more"
    about = RELEASE.read_text(encoding="utf-8") if RELEASE.exists() else ""
    if f"VERSION_CODENAME={base.group(1)}" not in about or os.geteuid() != 0:
        pytest.skip(f"this machine is no Debian {base.group(1)} of root's")

    of_the_image = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, text=True, check=True).stdout.strip()

    assert f"Python {platform.python_version()}" == of_the_image, "remove .venv and run `make install`"
