"""What an installation may lack.

Modules that only an extra installs: a program that lacks one says in one sentence which extra to install. Compiled hot
modules: a bookie works without, slower, and says so.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from typing import NoReturn

from bookie.base import varint

DISTRIBUTION = "bookie-ledger"
# No registry has it: whoever asks one by that name gets nothing, or what a stranger put there.
INSTALL = "in its checkout, pip install '.[{0}]'"
# Top-level modules of each extra of pyproject.toml. For a module of two extras the sentence names the first.
MODULES: Mapping[str, tuple[str, ...]] = {
    "bookie": ("rocksdict", "grpc", "grpc_health", "prometheus_client", "cryptography", "uvloop"),
    "operator": ("kopf", "kubernetes", "pydantic", "yaml", "aiohttp"),
    "spark": ("pyspark", "py4j", "pyarrow"),
}
# The product works without these, or says so itself where it needs them.
_OPTIONAL = ("uvloop", "cryptography")


def hot_modules() -> str:
    """Return "compiled" or "sources": what runs of the hot modules (docs/decisions/0007-native.md). All of them are
    compiled together, so one tells of all."""
    return "sources" if str(varint.__file__).endswith(".py") else "compiled"


def sentence(program: str, module: str, extra: str = "") -> str:
    """Return the sentence for the user; "" for a module that no extra installs. `extra`: the one that `program` needs,
    where several bring the module."""
    module = module.partition(".")[0]
    extras = [name for name, modules in MODULES.items() if module in modules]
    if not extras:
        return ""
    return f"{program} needs {module}, which is not installed: {INSTALL.format(extra or extras[0])}"


def missing(extra: str) -> str:
    """Return the first module of `extra` that is not installed, "" when all are."""
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
    """Run the body. A missing extra ends the program with one sentence and code 1; any other error passes."""
    try:
        yield
    except ModuleNotFoundError as error:
        text = sentence(program, error.name or "", extra)
        if not text:
            raise
        raise SystemExit(text) from None


def refuse(program: str, error: ModuleNotFoundError, extra: str) -> NoReturn:
    """Raise an ImportError of one sentence, for a package that needs `extra`. Under `python -m` end the program
    instead, since Python would print a traceback."""
    text = sentence(program, error.name or "", extra)
    if not text:
        raise error
    if sys.argv[:1] == ["-m"]:  # Python sets this while it looks for the module to run
        raise SystemExit(text) from None
    raise ModuleNotFoundError(text, name=error.name) from None
