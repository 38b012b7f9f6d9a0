"""The compiled modules do what their sources do: the tests of both run against a copy that has them."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import bookie

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
def test_a_program_says_whether_its_hot_modules_are_compiled(compiled: Path) -> None:
    def told(folder: Path) -> str:
        return subprocess.run(
            [sys.executable, "-P", "-m", "bookie", "--version"],
            env={**os.environ, "PYTHONPATH": str(folder)},
            cwd=compiled.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert told(compiled) == f"bookie {bookie.__version__} (hot modules: compiled)"
    assert told(ROOT) == f"bookie {bookie.__version__} (hot modules: sources)"


@pytest.mark.slow
def test_a_wheel_that_is_asked_for_has_every_listed_module_compiled_beside_its_source(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, env={**os.environ, "BOOKIE_NATIVE": "1"}, check=True)

    (wheel,) = tmp_path.iterdir()
    has = zipfile.ZipFile(wheel).namelist()
    modules = {module.removesuffix(".py") for module in native.MODULES}
    assert modules <= {path.partition(".")[0] for path in has if path.endswith(".so")}
    assert set(native.MODULES) <= set(has), "the sources are there too: a traceback shows them"
    assert not wheel.name.endswith("-none-any.whl")


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
