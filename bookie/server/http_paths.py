"""The admin paths of Java's bookie that people's probes and scripts ask for, answered by one of ours.

    GET      /heartbeat                      "OK"
    GET      /metrics                        Prometheus
    GET      /api/v1/bookie/is_ready         200 once clients may come, 503 before
    GET      /api/v1/bookie/state            running, readOnly, shuttingDown, availableForHighPriorityWrites
    GET PUT  /api/v1/bookie/state/readonly   {"readOnly": true}
    GET      /api/v1/bookie/info             freeSpace, totalSpace of the ledger disks
    GET      /api/v1/config/server_config    every setting, secrets masked
    PUT      /api/v1/bookie/gc               a run of garbage collection, answered when it is done

and what `cluster_paths` answers about the whole cluster.

Questions are answered to whoever can reach the port. What changes something is done for this machine only, unless the
settings say otherwise: nobody proves who he is here. Rules: HttpRouter.java and server/http/service of BookKeeper.
"""

import json
from collections.abc import Mapping
from typing import Protocol

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.ports.admin import Admin, Compaction, Health, State
from bookie.ports.disk import Usage
from bookie.ports.http import JSON, Answer, Handler, Request


class Node(Admin, Protocol):
    """A bookie, as these paths see it."""

    @property
    def state(self) -> State: ...

    def usage(self) -> Usage:
        """Of the ledger disks; zeros while the storage is not open."""
        ...

    @property
    def is_read_only(self) -> bool: ...


class HttpPaths:
    """`settings`: as they may be shown. `changes_from_anywhere`: who can reach the port may change things."""

    def __init__(
        self,
        node: Node,
        metrics: Handler,
        settings: Mapping[str, str],
        *,
        more: Mapping[tuple[str, str], Handler] | None = None,
        changes_from_anywhere: bool = False,
    ) -> None:
        """`more`: further paths, by method and path."""
        self._node = node
        self._settings = settings
        self._changes_from_anywhere = changes_from_anywhere
        self._answers: dict[tuple[str, str], Handler] = {
            ("GET", "/heartbeat"): self._heartbeat,
            ("GET", "/metrics"): metrics,
            ("GET", "/api/v1/bookie/is_ready"): self._is_ready,
            ("GET", "/api/v1/bookie/state"): self._state,
            ("GET", "/api/v1/bookie/state/readonly"): self._read_only,
            ("PUT", "/api/v1/bookie/state/readonly"): self._set_read_only,
            ("GET", "/api/v1/bookie/info"): self._info,
            ("GET", "/api/v1/config/server_config"): self._config,
            ("PUT", "/api/v1/bookie/gc"): self._collect,
            **(more or {}),
        }
        self._paths = dict.fromkeys(path for _, path in self._answers)

    async def answer(self, request: Request) -> Answer:
        """Never raises for what was asked; the status says it."""
        method = "GET" if request.method == "HEAD" else request.method
        path = request.path.rstrip("/") or "/"
        if path not in self._paths:
            return _text(404, f"there is no {path} here; there are: {', '.join(self._paths)}")
        answering = self._answers.get((method, path))
        if answering is None:
            return _text(405, f"{method} is not possible for {path}")
        if method != "GET" and not (request.is_local or self._changes_from_anywhere):
            return _text(403, "changes are taken from this machine only; see httpServerChangesFrom, or `bookie node`")
        try:
            answer = await answering(request)
        except errors.BadInput as error:
            return _text(400, str(error))
        except (errors.LedgerMissing, errors.NodeMissing, errors.NobodyAudits) as error:
            return _text(404, str(error))
        except BookieError as error:
            return _text(503, str(error))
        return Answer(answer.status, b"", answer.content_type) if request.method == "HEAD" else answer

    async def _heartbeat(self, request: Request) -> Answer:
        return _text(200, "OK")

    async def _is_ready(self, request: Request) -> Answer:
        if self._node.is_healthy(Health.SERVING):
            return Answer(200)
        return _text(503, f"this bookie is not ready: {self._node.state.value}")

    async def _state(self, request: Request) -> Answer:
        state = self._node.state
        return _json(
            {
                "running": state.serves,
                "readOnly": self._node.is_read_only,
                "shuttingDown": state is State.STOPPING,
                "availableForHighPriorityWrites": state.serves,
            }
        )

    async def _read_only(self, request: Request) -> Answer:
        return _json({"readOnly": self._node.is_read_only})

    async def _set_read_only(self, request: Request) -> Answer:
        try:
            wanted = json.loads(request.body)["readOnly"]
        except (ValueError, KeyError, TypeError):
            wanted = None
        if not isinstance(wanted, bool):
            raise errors.BadInput('the body says {"readOnly": true} or {"readOnly": false}')
        await self._node.set_read_only(wanted)
        return _json({"readOnly": self._node.is_read_only})

    async def _info(self, request: Request) -> Answer:
        usage = self._node.usage()
        return _json({"freeSpace": usage.free_bytes, "totalSpace": usage.total_bytes})

    async def _config(self, request: Request) -> Answer:
        return _json(dict(self._settings))

    async def _collect(self, request: Request) -> Answer:
        report = await self._node.collect_garbage(Compaction.NONE)
        return _text(200, f"{report.ledgers_deleted} ledgers forgotten, {report.logs_dropped} logs removed")


def _text(status: int, text: str) -> Answer:
    return Answer(status, f"{text}\n".encode())


def _json(facts: object) -> Answer:
    return Answer(200, json.dumps(facts).encode(), JSON)
