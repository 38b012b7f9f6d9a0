"""Without an extra that it needs, every program says in one sentence which one to install: never a traceback."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bookie.base import extras

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
# Python reads this before anything else: imports of these modules fail as if nobody had installed them.
WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
"""
AUDIT = "pyspark_bookkeeper audit --metadata-service-uri zk://127.0.0.1:1/ledgers --output /nowhere"


def run(folder: Path, missing: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(WITHOUT.format(missing=missing))
    path = os.pathsep.join([str(folder), str(ROOT), str(ROOT / "operator"), str(ROOT / "spark")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("extra", "module", "command"),
    [
        *(("bookie", module, "bookie serve") for module in ("rocksdict", "grpc", "grpc_health", "prometheus_client")),
        ("bookie", "grpc", "bookie node show"),
        ("bookie", "grpc", "bookie integrity status"),
        ("bookie", "rocksdict", "bookie local --data /nowhere"),
        ("spark", "pyspark", "bookie local --data /nowhere"),
        *(
            ("operator", module, "bookie_operator run")
            for module in ("kopf", "kubernetes", "pydantic", "yaml", "aiohttp")
        ),
        ("operator", "grpc", "bookie_operator run"),
        ("operator", "pydantic", "bookie_operator crds"),
        ("operator", "yaml", "bookie_operator render /dev/null"),
        ("spark", "pyspark", AUDIT),
        ("spark", "pyarrow", AUDIT),
        ("spark", "pyspark", "pyspark_bookkeeper --help"),
    ],
)
def test_a_program_names_the_extra_that_it_misses(tmp_path: Path, extra: str, module: str, command: str) -> None:
    ended = run(tmp_path, (module,), "-m", *command.split())

    assert ended.returncode == 1, ended
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert f" needs {module}, which is not installed: in its checkout, pip install '.[{extra}]'" in line


@pytest.mark.parametrize("module", ["bookie.connect", "bookie.blocking"])
def test_a_client_needs_no_extra(tmp_path: Path, module: str) -> None:
    every = tuple(name for modules in extras.MODULES.values() for name in modules)

    ended = run(tmp_path, every, "-c", f"import {module}")

    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_import_that_misses_an_extra_says_so(tmp_path: Path) -> None:
    ended = run(tmp_path, ("pyspark",), "-c", "import pyspark_bookkeeper")

    said = ended.stderr.splitlines()[-1]
    assert said.startswith("ModuleNotFoundError: pyspark_bookkeeper needs pyspark, which is not installed: ")
    assert said.endswith("in its checkout, pip install '.[spark]'")


def test_every_extra_of_the_project_is_known() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    imported = {"grpcio": "grpc", "grpcio-health-checking": "grpc_health", "pyyaml": "yaml"}

    assert declared["name"] == extras.DISTRIBUTION
    for extra, modules in extras.MODULES.items():
        names = [text.partition(">")[0] for text in declared["optional-dependencies"][extra]]
        found = {imported.get(name, name.replace("-", "_")) for name in names}
        anywhere = {module for each in extras.MODULES.values() for module in each}
        assert set(modules) <= found
        assert found <= anywhere
