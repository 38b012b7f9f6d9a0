"""What writers of `bookie workload` noted as acknowledged, and whether all of it reads back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import local_support

VERIFY_TIMEOUT_S = 900.0


def acknowledged(log: Path) -> int:
    """How many entries the writers noted in the folder `log`; 0 before there is one."""
    return sum(path.read_bytes().count(b'["ack"') for path in log.glob("*")) if log.exists() else 0


def verdict(uri: str, log: Path) -> dict[str, Any]:
    """Read back everything noted in `log`; return what `bookie workload verify` says. AssertionError if it is mute."""
    told = subprocess.run(
        [*local_support.BOOKIE, "workload", "verify", "--metadata-service-uri", uri, "--log", str(log), "--json"],
        capture_output=True,
        text=True,
        timeout=VERIFY_TIMEOUT_S,
        check=False,
    )
    assert told.stdout.strip(), told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found
