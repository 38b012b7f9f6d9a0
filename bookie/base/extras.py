"""What is installed only with an extra: one sentence that names it, where a program or an import finds it missing."""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from typing import NoReturn

DISTRIBUTION = "bookie-ledger"
# Top-level modules of each extra of pyproject.toml; a module of two is named with the first.
MODULES: Mapping[str, tuple[str, ...]] = {
    "bookie": ("rocksdict", "grpc", "grpc_health", "prometheus_client", "cryptography", "uvloop"),
    "operator": ("kopf", "kubernetes", "pydantic", "yaml", "aiohttp"),
    "spark": ("pyspark", "py4j", "pyarrow"),
}
# There is another way without these, or it is told where they are needed.
_OPTIONAL = ("uvloop", "cryptography")


def sentence(program: str, module: str, extra: str = "") -> str:
    """What to tell; "" for a module of which nothing is known here. `extra`: which one `program` needs, if it is one
    of several that bring the module."""
    module = module.partition(".")[0]
    extras = [name for name, modules in MODULES.items() if module in modules]
    if not extras:
        return ""
    return f"{program} needs {module}, which is not installed: pip install '{DISTRIBUTION}[{extra or extras[0]}]'"


def missing(extra: str) -> str:
    """The first module of an extra that is not installed, "" when all are."""
    for module in MODULES[extra]:
        if module not in _OPTIONAL and not _is_installed(module):
            return module
    return ""


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@contextlib.contextmanager
def told(program: str, extra: str = "") -> Iterator[None]:
    """Inside, a missing extra ends the program with one sentence and code 1. Anything else passes."""
    try:
        yield
    except ModuleNotFoundError as error:
        text = sentence(program, error.name or "", extra)
        if not text:
            raise
        raise SystemExit(text) from None


def refuse(program: str, error: ModuleNotFoundError, extra: str) -> NoReturn:
    """For a package that cannot be imported without an extra: an ImportError in one sentence; for `python -m` of that
    package, which would show where it was raised, the end of the program."""
    text = sentence(program, error.name or "", extra)
    if not text:
        raise error
    if sys.argv[:1] == ["-m"]:  # so it is while Python looks for the module to run
        raise SystemExit(text) from None
    raise ModuleNotFoundError(text, name=error.name) from None
