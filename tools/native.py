"""Compiles the hot, pure modules with mypyc: the same sources, typed, as C. Nothing else is ever compiled.

    python tools/native.py DIRECTORY             a copy of the packages, compiled modules beside their sources
    python tools/native.py --alone DIRECTORY     the compiled modules, to be laid over an installation (the image)

Never compiles into this tree: a source must not be shadowed by something older. Everything works without, and nothing
may behave differently with it. Why, and what it brings: docs/decisions/0007-native.md.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Called for every request or entry, import nothing but each other's like, and no test replaces a part of them.
MODULES = (
    "bookie/base/varint.py",
    "bookie/storage/block.py",
    "bookie/storage/deltas.py",
    "bookie/storage/entrylog/format.py",
    "bookie/storage/journal/batch.py",
    "bookie/storage/journal/format.py",
    "bookie/storage/ledgers.py",
    "bookie/storage/location.py",
    "bookie/storage/mixes.py",
    "bookie/storage/run.py",
    "bookie/storage/write_cache.py",
    "bookie/wire/framing.py",
    "bookie/wire/runs.py",
    "bookie/wire/v3/answers.py",
)
PACKAGES = ("bookie", "operator/bookie_operator", "spark/pyspark_bookkeeper")
_SETUP = """
from mypyc.build import mypycify
from setuptools import setup

setup(name="bookie-native", packages=[], ext_modules=mypycify(
    ["--ignore-missing-imports", *{modules!r}], opt_level="2", group_name="bookie", multi_file=False))
"""


def compile_into(target: Path) -> list[Path]:
    """Compile, and put the extension modules below `target` as they lie below the tree; return their paths.

    Raises subprocess.CalledProcessError, with what the compiler said, where there is no compiler or it refuses.
    """
    with tempfile.TemporaryDirectory(prefix="bookie-native-") as name:
        work = Path(name)
        _copy(work, [PACKAGES[0]])
        (work / "setup.py").write_text(_SETUP.format(modules=list(MODULES)))
        command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        done = subprocess.run(command, cwd=work, env=_environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        found = [path.relative_to(work) for path in work.rglob(f"*{suffix}")]
        built = [path for path in found if path.parts[0] != "build"]
        for path in built:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(work / path, target / path)
    return [target / path for path in built]


def copy_with_native(target: Path) -> None:
    """A copy of the packages in `target`, with the compiled modules: put it first on PYTHONPATH."""
    _copy(target, PACKAGES)
    compile_into(target)


def _copy(target: Path, packages: Sequence[str]) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for package in packages:
        shutil.copytree(ROOT / package, target / Path(package).name, dirs_exist_ok=True, ignore=ignored)


def _environment() -> dict[str, str]:
    """Without assembly for this very machine: what is built here runs on its like."""
    return {**os.environ, "CFLAGS": os.environ.get("CFLAGS", "-O2 -g0")}


def main() -> int:
    parser = argparse.ArgumentParser(description="The packages with the hot modules compiled.")
    parser.add_argument("directory", type=Path, help="made, or added to")
    parser.add_argument("--alone", action="store_true", help="the compiled modules only")
    arguments = parser.parse_args()
    try:
        (compile_into if arguments.alone else copy_with_native)(arguments.directory)
    except subprocess.CalledProcessError as error:
        print(error.stdout[-2000:], error.stderr[-4000:], sep="\n", file=sys.stderr)
        print("native: not compiled; gcc and Python's headers (Debian: gcc python3-dev) are needed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
