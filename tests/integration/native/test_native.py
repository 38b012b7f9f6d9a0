"""The compiled modules do what their sources do: the tests of both run against a copy that has them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import native  # noqa: E402

TESTS = ("tests/unit/wire", "tests/unit/storage", "tests/unit/server/test_processor.py")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("native")
    native.copy_with_native(target)
    return target


@pytest.mark.slow
def test_every_listed_module_is_compiled_and_is_what_gets_imported(compiled: Path) -> None:
    names = [module.removesuffix(".py").replace("/", ".") for module in native.MODULES]
    script = "import importlib, sys; print(*(importlib.import_module(n).__file__ for n in sys.argv[1:]), sep='\\n')"

    told = subprocess.run(
        [sys.executable, "-P", "-c", script, *names],
        env={**os.environ, "PYTHONPATH": str(compiled)},
        cwd=compiled,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    assert all(path.startswith(str(compiled)) and path.endswith(".so") for path in told), told


@pytest.mark.slow
def test_the_units_pass_with_the_compiled_modules(compiled: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-o", f"pythonpath={compiled} tests/support tests/cluster"]

    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options, *TESTS],
        env={**os.environ, "PYTHONPATH": str(compiled)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
