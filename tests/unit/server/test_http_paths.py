"""Java's admin paths: what probes and scripts get, who may change things, and what is never shown."""

import asyncio
import json
from typing import Any

import pytest

from bookie.base import errors
from bookie.ports.admin import Compaction, GarbageReport, Health, State
from bookie.ports.disk import Usage
from bookie.ports.http import Answer, Request
from bookie.server.http_paths import HttpPaths


class FakeNode:
    """A bookie that does as it is told, and remembers."""

    def __init__(self, state: State = State.SERVING) -> None:
        self.state = state
        self.is_read_only = False
        self.collected: list[Compaction] = []
        self.is_forced = False

    def is_healthy(self, question: Health) -> bool:
        return self.state.serves

    def usage(self) -> Usage:
        return Usage(total_bytes=1000, free_bytes=300)

    async def set_read_only(self, read_only: bool) -> State:
        if self.is_forced and not read_only:
            raise errors.BadInput("it stays read-only")
        self.is_read_only = read_only
        return self.state

    async def collect_garbage(self, compaction: Compaction) -> GarbageReport:
        if not self.state.serves:
            raise errors.StorageFailed("not open")
        self.collected.append(compaction)
        return GarbageReport(ledgers_deleted=3)


def ask(node: FakeNode, method: str, path: str, body: bytes = b"", *, local: bool = True, **options: Any) -> Answer:
    async def metrics(request: Request) -> Answer:
        return Answer(200, b"bookie_adds_total 7\n")

    settings = {"bookiePort": "3181", "tlsKeyStorePassword": "********"}
    paths = HttpPaths(node, metrics, settings, **options)  # type: ignore[arg-type]
    return asyncio.run(paths.answer(Request(method, path, body=body, is_local=local)))


def test_a_heartbeat_is_answered_in_every_state() -> None:
    for state in State:
        assert ask(FakeNode(state), "GET", "/heartbeat") == Answer(200, b"OK\n")


def test_ready_is_said_only_while_clients_may_come() -> None:
    assert ask(FakeNode(State.SERVING), "GET", "/api/v1/bookie/is_ready").status == 200
    waiting = ask(FakeNode(State.WAITING_GRANT), "GET", "/api/v1/bookie/is_ready")

    assert (waiting.status, b"WAITING_GRANT" in waiting.body) == (503, True)


@pytest.mark.parametrize(
    ("state", "running", "stopping"),
    [(State.SERVING, True, False), (State.STARTING, False, False), (State.STOPPING, False, True)],
)
def test_the_state_has_java_s_four_fields(state: State, running: bool, stopping: bool) -> None:
    assert json.loads(ask(FakeNode(state), "GET", "/api/v1/bookie/state").body) == {
        "running": running,
        "readOnly": False,
        "shuttingDown": stopping,
        "availableForHighPriorityWrites": running,
    }


def test_the_mode_is_set_and_told() -> None:
    node = FakeNode()

    changed = ask(node, "PUT", "/api/v1/bookie/state/readonly", b'{"readOnly": true}')

    assert json.loads(changed.body) == {"readOnly": True}
    assert json.loads(ask(node, "GET", "/api/v1/bookie/state/readonly").body) == {"readOnly": True}
    assert json.loads(ask(node, "GET", "/api/v1/bookie/state").body)["readOnly"] is True


@pytest.mark.parametrize("body", [b"", b"{}", b'{"readOnly": "true"}', b"[]", b"\xff"])
def test_a_mode_that_is_none_changes_nothing(body: bytes) -> None:
    node = FakeNode()

    assert ask(node, "PUT", "/api/v1/bookie/state/readonly", body).status == 400
    assert not node.is_read_only


def test_a_bookie_that_is_forced_read_only_refuses_as_java_does() -> None:
    node = FakeNode()
    node.is_read_only = node.is_forced = True

    assert ask(node, "PUT", "/api/v1/bookie/state/readonly", b'{"readOnly": false}').status == 400


@pytest.mark.parametrize(("path", "body"), [("state/readonly", b'{"readOnly": true}'), ("gc", b"")])
def test_changes_come_from_this_machine_unless_the_settings_say_otherwise(path: str, body: bytes) -> None:
    node, where = FakeNode(), f"/api/v1/bookie/{path}"

    refused = ask(node, "PUT", where, body, local=False)
    assert (refused.status, b"httpServerChangesFrom" in refused.body) == (403, True)
    assert not node.is_read_only
    assert not node.collected
    assert ask(node, "GET", "/heartbeat", local=False).status == 200
    assert ask(node, "PUT", where, body, local=False, changes_from_anywhere=True).status == 200
    assert node.is_read_only or node.collected


def test_space_settings_metrics_and_garbage() -> None:
    node = FakeNode()

    assert json.loads(ask(node, "GET", "/api/v1/bookie/info").body) == {"freeSpace": 300, "totalSpace": 1000}
    assert json.loads(ask(node, "GET", "/api/v1/config/server_config").body)["tlsKeyStorePassword"] == "********"
    assert b"bookie_adds_total" in ask(node, "GET", "/metrics").body
    assert ask(node, "PUT", "/api/v1/bookie/gc").status == 200
    assert node.collected == [Compaction.NONE]
    assert ask(FakeNode(State.REPLAYING), "PUT", "/api/v1/bookie/gc").status == 503


def test_what_is_not_there_is_told_with_what_is() -> None:
    missing = ask(FakeNode(), "GET", "/api/v1/nothing")

    assert (missing.status, b"/api/v1/bookie/is_ready" in missing.body) == (404, True)
    assert ask(FakeNode(), "DELETE", "/heartbeat").status == 405
    assert ask(FakeNode(), "GET", "/heartbeat/").status == 200
    assert ask(FakeNode(), "HEAD", "/heartbeat") == Answer(200, b"")
