"""Generated files in the tree are what their sources say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_protobuf_modules_match_their_texts(tmp_path: Path) -> None:
    result = subprocess.run(
        ["sh", str(ROOT / "tools" / "proto.sh"), str(tmp_path)],
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr

    generated = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*_pb2*.py*"))
    assert generated
    stale = [str(name) for name in generated if (ROOT / name).read_bytes() != (tmp_path / name).read_bytes()]
    assert not stale, f"run `make proto`: {stale}"
