"""Which seeds a run of the simulator tries: fresh ones with each commit, the same ones until the next."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def base_seed() -> int:
    """SIM_SEED when given, else a number made from the commit; 0 outside a checkout."""
    if text := os.environ.get("SIM_SEED"):
        return int(text, 0)
    result = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    return zlib.crc32(result.stdout.strip()) % 1_000_000 * 1000 if result.returncode == 0 else 0


def is_drawn(name: str, share: int, seed: int) -> bool:
    """Return True for one in `share` of all names, others with each seed."""
    return (zlib.crc32(name.encode()) + zlib.crc32(b"%d" % seed)) % share == 0
