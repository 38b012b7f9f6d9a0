"""No task, callback or handler that a stranger's bytes can reach runs outside a boundary, by syntax tree.

A *boundary* is a function whose work stands in a `try` with `except Exception` (or which only hands over to one). What
is handed to the loop, to a listener, to the store or to gRPC in the modules below must be one: an error that a callback
raises meets who called it, and that ended whole nodes (the journal's task, a reader, the loop).
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Everything between a socket and the store.
REACHABLE = sorted(
    [
        *(ROOT / "bookie" / "server").glob("*.py"),
        *(ROOT / "bookie" / "runtime" / name for name in ("http.py", "network.py", "metrics.py")),
        *(ROOT / "bookie" / "runtime").glob("admin*.py"),
    ]
)
# Name of the call → which argument is run by somebody else.
HANDED_OVER = {
    "call_soon": 0,
    "call_later": 1,
    "call_at": 1,
    "create_task": 0,
    "ensure_future": 0,
    "add_done_callback": 0,
    "start_server": 0,
    "listen": 1,
}
STORE_CALLS = ("fence", "write_lac", "force")
# What is no boundary itself, and why that is right.
TRUSTED = {
    "bookie.py: self._supervise": "the supervisor: parts of the node, no request",
    "drain.py: self._carry_out": "of the part `drain`, which the supervisor runs: no request",
    "readers.py: self._work": "its jobs run in `_do`, which is a boundary",
    "ledgers.py: self._end": "calls `on_end` only, which `Boundary.callback` made",
    "network.py: self._transport.abort": "the loop's own",
    "network.py: self._forget": "hands on what a task raised; the tasks are boundaries",
    "admin_connections.py: _look": "its loop has the `try` inside, so that it goes on",
    "admin_secure.py: self._follow": "the same",
    "network.py: coroutine": "self._serve: awaits `on_connect`, which is a boundary",
}


def calls(path: Path) -> Iterator[tuple[ast.Call, str, ast.Module]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            yield node, name.removeprefix("_"), tree


def is_boundary(function: ast.AST) -> bool:
    """All of its work is in a `try` that stops everything; before and after stand plain assignments and tests only."""
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    tries = [
        statement
        for statement in function.body
        if isinstance(statement, ast.Try)
        and any(isinstance(one.type, ast.Name) and one.type.id == "Exception" for one in statement.handlers)
    ]
    others = [statement for statement in function.body if statement not in tries]
    return len(tries) == 1 and not any(isinstance(node, ast.Await) for one in others for node in ast.walk(one))


def handed_over(argument: ast.expr) -> str:
    """The function that will run: `self._serve` of `self._serve(stream)`, of `partial(self._serve, …)`, or itself."""
    if isinstance(argument, ast.Call):
        is_partial = isinstance(argument.func, ast.Name) and argument.func.id == "partial"
        return ast.unparse(argument.args[0] if is_partial else argument.func)
    return ast.unparse(argument)


def unbounded(path: Path) -> Iterator[str]:
    for call, name, tree in calls(path):
        if name not in HANDED_OVER or len(call.args) <= HANDED_OVER[name]:
            continue
        runs = handed_over(call.args[HANDED_OVER[name]])
        functions = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == runs.rsplit(".", 1)[-1]
        ]
        if f"{path.name}: {runs}" not in TRUSTED and not any(map(is_boundary, functions)):
            yield f"{path.relative_to(ROOT)}:{call.lineno}: {name}({runs}) runs outside a boundary"


@pytest.mark.parametrize("path", REACHABLE, ids=lambda path: path.name)
def test_what_is_handed_to_the_loop_is_a_boundary(path: Path) -> None:
    assert not list(unbounded(path))


@pytest.mark.parametrize("path", REACHABLE, ids=lambda path: path.name)
def test_what_is_handed_to_the_store_was_made_by_the_boundary(path: Path) -> None:
    """`done` of an add is `Adds._done`, a boundary; that of everything else is `Boundary.completion`."""
    for call, name, _ in calls(path):
        if not ast.unparse(call.func).endswith(
            tuple(f"_store.{one}" for one in (*STORE_CALLS, "add", "add_plain", "watch_lac"))
        ):
            continue
        keywords = {word.arg: word.value for word in call.keywords}
        done = keywords.get("done", call.args[-1])
        text = ast.unparse(done)
        where = f"{path.relative_to(ROOT)}:{call.lineno}: {name}(…, {text})"
        assert text == "done" or text.startswith(("partial(self._done,", "self._boundary.completion(")), where


def test_every_done_was_made_by_the_boundary() -> None:
    """Where a call hands on a `done`, it got it from `Boundary.completion`."""
    for name in ("adds.py", "processor.py", "reads.py"):
        tree = ast.parse((ROOT / "bookie" / "server" / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "done":
                made = ast.unparse(node.value)
                assert made.startswith("self._boundary.completion("), made


def test_every_request_and_every_answer_passes_the_boundary() -> None:
    for name, function in (
        ("processor.py", "handle"),
        ("adds.py", "_done"),
        ("boundary.py", "_complete"),
        ("boundary.py", "_call"),
        ("readers.py", "_do"),
        ("connection.py", "run"),
    ):
        tree = ast.parse((ROOT / "bookie" / "server" / name).read_text(encoding="utf-8"))
        found = [node for node in ast.walk(tree) if getattr(node, "name", "") == function]
        tries = [one for one in ast.walk(found[0]) if isinstance(one, ast.ExceptHandler) and one.type is not None]
        assert any(ast.unparse(one.type) == "Exception" for one in tries if one.type is not None), (name, function)


def test_every_grpc_server_has_the_boundary_before_everything_else() -> None:
    found = named = 0
    for path in sorted((ROOT / "bookie").rglob("*.py")):
        named += len(
            re.findall(r"grpc(?:\.aio)?\.server\b|from grpc(?:\.aio)? import", path.read_text(encoding="utf-8"))
        )
        for call, _, tree in calls(path):
            if ast.unparse(call.func) == "grpc.aio.server":
                found += 1
                (interceptors,) = (word.value for word in call.keywords if word.arg == "interceptors")
                assert isinstance(interceptors, ast.List)
                first = ast.unparse(interceptors.elts[0])
                (made,) = (
                    ast.unparse(node.value)
                    for node in ast.walk(tree)
                    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == first
                )
                assert made.startswith("admin_boundary.AdminBoundary("), path

    assert found == named == 1, "also one that is made by another name"


def test_nobody_trusts_what_is_not_there() -> None:
    """An entry of the list above that nothing needs any more would hide the next one of that name."""
    used = set()
    for path in REACHABLE:
        for call, name, _ in calls(path):
            if name in HANDED_OVER and len(call.args) > HANDED_OVER[name]:
                used.add(f"{path.name}: {handed_over(call.args[HANDED_OVER[name]])}")

    assert set(TRUSTED) <= used, set(TRUSTED) - used
