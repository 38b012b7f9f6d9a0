"""House rules that import contracts cannot see, by syntax tree (docs/STYLE.md; docs/ARCHITECTURE.md, "Arrows")."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ["bookie", "operator/bookie_operator", "spark/pyspark_bookkeeper"]
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")

# Strata that reach the world only through ports.
PORTED = ("base", "wire", "metadata", "ports", "quorum", "storage", "server", "client", "integrity")
BANNED_CALLS_IN_PORTED = {
    "open",
    "print",
    "input",
    "asyncio.to_thread",
    "asyncio.open_connection",
    "asyncio.start_server",
    "asyncio.sleep",
    "datetime.datetime.now",
    "datetime.now",
}
# What each Python ends in another way: an error in place of a result, or a cancellation in place of an error.
BANNED_LIMITS = ("asyncio.timeout", "asyncio.timeout_at", "asyncio.wait_for")
BANNED_METHODS_IN_PORTED = {"run_in_executor", "create_connection", "create_server", "start_server"}
# `except Exception` is a boundary: task supervisors, the connection loop, kopf glue, the command line.
BROAD_EXCEPT_ALLOWED: dict[str, str] = {
    "bookie/server/boundary.py": "the boundary of requests: what they leave behind",
    "bookie/server/processor.py": "the boundary of requests: a request itself",
    "bookie/server/adds.py": "the boundary of requests: completions of adds, hot",
    "bookie/server/readers.py": "the boundary of requests: reads that wait for the disk",
    "bookie/server/connection.py": "connection loop",
    "bookie/server/connections.py": "the look at all connections",
    "bookie/runtime/http.py": "the boundary of an HTTP request",
    "bookie/runtime/admin_boundary.py": "the boundary of an admin call",
    "bookie/runtime/admin_connections.py": "the look at the admin port's connections",
    "bookie/runtime/admin_secure.py": "the look at the admin port's certificates, and the end of a former server",
    "bookie/server/bookie.py": "task supervisor",
    "bookie/server/autorecovery.py": "what serves the cluster beside must never end the bookie",
    "bookie/client/repair/auditor.py": "a defect at one ledger must not keep the others from being looked at",
    "bookie/client/repair/replication_worker.py": "a defect at one ledger must not keep the others from being mended",
    "bookie/client/repair/naming.py": "a defect at one ledger must not keep the others from being looked at",
    "bookie/client/repair/evacuation.py": "a defect at one ledger must not keep the others from being moved",
    "spark/pyspark_bookkeeper/audit/inspector.py": "a defect at one ledger must not keep the others from being audited",
    "bookie/integrity/together.py": "carries what one of several raised to their caller",
    "bookie/sim/loop.py": "the event loop itself, as asyncio's Handle does",
    "bookie/blocking.py": "carries what the loop thread raised to its owner",
    "bookie/runtime/rocksdb.py": "rocksdict raises Exception itself",
    "bookie/runtime/read_pool.py": "carries what a call raised to its caller",
    "bookie/runtime/threads.py": "carries what a call raised to its caller",
    "bookie/cli/main.py": "the command line's last resort",
    "operator/bookie_operator/reconcile.py": "the boundary of a pass: what ends it is told in the status",
    "operator/bookie_operator/watch.py": "kopf glue",
    "operator/bookie_operator/workqueue.py": "reconcile supervisor",
}


def product_files() -> Iterator[Path]:
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not GENERATED.search(path.name):
                yield path


def stratum(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "bookie" and len(parts) > 2 else parts[0]


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return "?"


def problems_of(path: Path) -> Iterator[str]:
    where = path.relative_to(ROOT).as_posix()
    tree = ast.parse(path.read_text(encoding="utf-8"), where)
    ported = where.startswith("bookie/") and stratum(path) in PORTED
    if not ast.get_docstring(tree):
        yield f"{where}:1: a module says why it exists"
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or line) - line + 1
            if length > 70:
                yield f"{where}:{line}: {node.name} needs scrolling ({length} lines)"
            if node.name == "__del__":
                yield f"{where}:{line}: __del__ runs when nobody can say"
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                yield f"{where}:{line}: bare except"
            elif dotted(node.type) in ("Exception", "BaseException") and where not in BROAD_EXCEPT_ALLOWED:
                yield f"{where}:{line}: except {dotted(node.type)} outside the listed boundaries"
        if isinstance(node, ast.TryStar):
            yield f"{where}:{line}: except* raises something else in each Python; bookie.base.groups.ungrouped does not"
        if isinstance(node, ast.Attribute) and dotted(node) in BANNED_LIMITS and not where.endswith("/time_limit.py"):
            yield f"{where}:{line}: {dotted(node)} ends in another way in each Python; bookie.ports.time_limit does not"
        if ported and isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in BANNED_CALLS_IN_PORTED or name.rsplit(".", 1)[-1] in BANNED_METHODS_IN_PORTED:
                yield f"{where}:{line}: {name}() reaches the world past the ports"
            if name == "asyncio.create_task":
                yield f"{where}:{line}: an orphan task; use a task group or an owner"


def test_every_module_keeps_the_house_rules() -> None:
    problems = [problem for path in product_files() for problem in problems_of(path)]

    assert not problems, "\n".join(problems)


def test_no_todo_without_a_number() -> None:
    unnumbered = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#?\d+\))")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in product_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if unnumbered.search(line)
    ]

    assert not found, "\n".join(found)


def test_source_roots_never_shadow_the_standard_library() -> None:
    import operator

    assert operator.__file__ is not None
    assert operator.__file__.endswith("operator.py")
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not (ROOT / "spark" / "__init__.py").exists()


def test_no_test_folder_is_a_package() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


MARKDOWN_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)]*)?\)")


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = [
        target
        for target, _ in MARKDOWN_LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]

    assert not broken, f"{page.relative_to(ROOT)}: {broken}"


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_merge_was_left_in_the_middle() -> None:
    mark = re.compile(r"^(?:<{7} |>{7} )", re.MULTILINE)
    found = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if mark.search(path.read_text(encoding="utf-8", errors="replace"))
    ]

    assert not found, f"marks of a merge that nobody ended: {found}"


def test_no_path_of_a_machine_and_no_registry_is_named() -> None:
    # Spelled in pieces, so that this file does not find itself.
    forbidden = [
        "/work" + "/main",
        "/work" + "/shared",
        "registry." + "npmjs",
        "files.python" + "hosted",
        "repo1.maven" + ".org",
    ]
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in tracked()
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".java", ".proto", ".xml", ""}
        for word in forbidden
        if word in path.read_text(encoding="utf-8", errors="replace")
    ]

    assert not found, "\n".join(found)
