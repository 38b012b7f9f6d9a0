"""Java's admin paths: what probes and scripts get, who may change things, and what is never shown."""

import asyncio
import json
import logging
from typing import Any

import pytest

from bookie.base import errors
from bookie.ports.admin import Compaction, GarbageReport, Health, State
from bookie.ports.disk import Usage
from bookie.ports.http import HttpAnswer, HttpRequest
from bookie.server.http_paths import OPEN, HttpPaths


class FakeNode:
    """A bookie that does as it is told, and remembers."""

    def __init__(self, state: State = State.SERVING) -> None:
        self.state = state
        self.is_read_only = False
        self.collected: list[Compaction] = []
        self.is_forced = False
        self.garbage_held: tuple[int, int] | None = None
        self.held_reason = ""

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
        return GarbageReport(ledgers_deleted=3, held_reason=self.held_reason)


def ask(node: FakeNode, method: str, path: str, body: bytes = b"", *, local: bool = True, **options: Any) -> HttpAnswer:
    async def metrics(request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, b"bookie_adds_total 7\n")

    settings = {"bookiePort": "3181", "tlsKeyStorePassword": "********"}
    paths = HttpPaths(node, metrics, settings, **options)  # type: ignore[arg-type]
    return asyncio.run(paths.answer(HttpRequest(method, path, body=body, caller="local" if local else "")))


def test_a_heartbeat_is_answered_in_every_state() -> None:
    for state in State:
        assert ask(FakeNode(state), "GET", "/heartbeat") == HttpAnswer(200, b"OK\n")


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


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/config/server_config/"),
        ("HEAD", "/api/v1/config/server_config"),
        ("HEAD", "/api/v1/bookie/state//"),
        ("PUT", "/api/v1/bookie/state/readonly/"),
    ],
)
def test_a_stranger_is_refused_however_he_writes_a_path(method: str, path: str) -> None:
    node = FakeNode()

    assert ask(node, method, path, b'{"readOnly": true}', local=False).status == 403
    assert not node.is_read_only
    assert ask(node, method, path, b'{"readOnly": true}').status == 200


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


@pytest.mark.parametrize("local", [True, False])
def test_whoever_is_not_known_is_told_health_and_metrics_and_nothing_else(local: bool) -> None:
    async def metrics(request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200)

    node, known = FakeNode(), "local" if local else ""
    paths = HttpPaths(node, metrics, {}, more={("GET", "/api/v1/ledger/list"): metrics})  # type: ignore[arg-type]
    seen = {}
    for method, path in paths._answers:
        body = b'{"readOnly": true}'
        seen[(method, path)] = asyncio.run(paths.answer(HttpRequest(method, path, body=body, caller=known))).status

    refused = {where for where, status in seen.items() if status == 403}
    assert refused == (set() if local else {(method, path) for method, path in seen if path not in OPEN})
    assert OPEN == ("/heartbeat", "/metrics", "/api/v1/bookie/is_ready")
    assert (node.is_read_only, bool(node.collected)) == (local, local)


def test_a_change_is_logged_with_who_made_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert ask(FakeNode(), "PUT", "/api/v1/bookie/state/readonly", b'{"readOnly": true}').status == 200
        assert ask(FakeNode(), "GET", "/api/v1/bookie/info").status == 200

    assert caplog.messages == ["http PUT /api/v1/bookie/state/readonly by=local with=b'{\"readOnly\": true}'"]


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
    assert ask(FakeNode(), "HEAD", "/heartbeat") == HttpAnswer(200, b"")


def test_what_the_brake_holds_is_shown_and_no_path_lets_it_go() -> None:
    node = FakeNode()
    assert json.loads(ask(node, "GET", "/api/v1/bookie/gc").body) == {"held_ledgers": None, "held_bytes": None}

    node.garbage_held, node.held_reason = (40, 1000), "40 ledgers are gone"
    assert json.loads(ask(node, "GET", "/api/v1/bookie/gc").body) == {"held_ledgers": 40, "held_bytes": 1000}
    done = ask(node, "PUT", "/api/v1/bookie/gc", b'{"released": 40}')
    assert b"held: 40 ledgers are gone" in done.body
