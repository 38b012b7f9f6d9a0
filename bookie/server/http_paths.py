"""Answers the admin paths of Java's bookie that probes and scripts use.

    GET      /heartbeat                      "OK"
    GET      /metrics                        Prometheus
    GET      /api/v1/bookie/is_ready         200 once clients may come, 503 before
    GET      /api/v1/bookie/state            running, readOnly, shuttingDown, availableForHighPriorityWrites
    GET PUT  /api/v1/bookie/state/readonly   {"readOnly": true}
    GET      /api/v1/bookie/info             freeSpace, totalSpace of the ledger disks
    GET      /api/v1/config/server_config    every setting, secrets masked
    GET      /api/v1/bookie/gc               what the brake on mass deletion holds, as last seen
    PUT      /api/v1/bookie/gc               a run of garbage collection, answered when it is done

and what `cluster_paths` answers about the whole cluster.

The bookie tells health and metrics to everybody who can reach the port, and everything else to callers that it knows:
to this machine, and to those that show a certificate which the admin port obeys. It logs each change with its caller.
Rules: HttpRouter.java and server/http/service of BookKeeper.
"""

import logging
from collections.abc import Mapping

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.ports.admin import Compaction, Health, State
from bookie.ports.http import Handler, HttpAnswer, HttpRequest
from bookie.server.admin import NodeAdmin
from bookie.server.cluster_paths import field_of, json_answer, text_answer

log = logging.getLogger(__name__)

# For anybody: what a probe and a scraper ask.
OPEN = ("/heartbeat", "/metrics", "/api/v1/bookie/is_ready")
_BODY_SHOWN = 200


class HttpPaths:
    """Answers those paths. `settings`: without secrets."""

    def __init__(
        self,
        node: NodeAdmin,
        metrics: Handler,
        settings: Mapping[str, str],
        *,
        more: Mapping[tuple[str, str], Handler] | None = None,
    ) -> None:
        """`more`: further paths, by method and path."""
        self._node = node
        self._settings = settings
        self._answers: dict[tuple[str, str], Handler] = {
            ("GET", "/heartbeat"): self._heartbeat,
            ("GET", "/metrics"): metrics,
            ("GET", "/api/v1/bookie/is_ready"): self._is_ready,
            ("GET", "/api/v1/bookie/state"): self._state,
            ("GET", "/api/v1/bookie/state/readonly"): self._read_only,
            ("PUT", "/api/v1/bookie/state/readonly"): self._set_read_only,
            ("GET", "/api/v1/bookie/info"): self._info,
            ("GET", "/api/v1/config/server_config"): self._config,
            ("GET", "/api/v1/bookie/gc"): self._garbage,
            ("PUT", "/api/v1/bookie/gc"): self._collect,
            **(more or {}),
        }
        self._paths = dict.fromkeys(path for _, path in self._answers)

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request. Never raises for a bad request; the status reports it."""
        method = "GET" if request.method == "HEAD" else request.method
        path = request.path.rstrip("/") or "/"
        if path not in self._paths:
            return text_answer(404, f"there is no {path} here; there are: {', '.join(self._paths)}")
        answering = self._answers.get((method, path))
        if answering is None:
            return text_answer(405, f"{method} is not possible for {path}")
        if path not in OPEN and not request.caller:
            return text_answer(
                403,
                "this path is for the bookie's own machine, or over TLS with a certificate; health and metrics are for"
                " everybody",
            )
        if method != "GET":
            log.info("http %s %s by=%s with=%r", method, path, request.caller, request.body[:_BODY_SHOWN])
        try:
            answer = await answering(request)
        except errors.BadInput as error:
            return text_answer(400, str(error))
        except (errors.LedgerMissing, errors.NodeMissing, errors.NobodyAudits) as error:
            return text_answer(404, str(error))
        except BookieError as error:
            return text_answer(503, str(error))
        return HttpAnswer(answer.status, b"", answer.content_type) if request.method == "HEAD" else answer

    async def _heartbeat(self, request: HttpRequest) -> HttpAnswer:
        return text_answer(200, "OK")

    async def _is_ready(self, request: HttpRequest) -> HttpAnswer:
        if self._node.is_healthy(Health.SERVING):
            return HttpAnswer(200)
        return text_answer(503, f"this bookie is not ready: {self._node.state.value}")

    async def _state(self, request: HttpRequest) -> HttpAnswer:
        state = self._node.state
        return json_answer(
            {
                "running": state.serves,
                "readOnly": self._node.is_read_only,
                "shuttingDown": state is State.STOPPING,
                "availableForHighPriorityWrites": state.serves,
            }
        )

    async def _read_only(self, request: HttpRequest) -> HttpAnswer:
        return json_answer({"readOnly": self._node.is_read_only})

    async def _set_read_only(self, request: HttpRequest) -> HttpAnswer:
        wanted = field_of(request, "readOnly")
        if not isinstance(wanted, bool):
            raise errors.BadInput('the body must be {"readOnly": true} or {"readOnly": false}')
        await self._node.set_read_only(wanted)
        return json_answer({"readOnly": self._node.is_read_only})

    async def _info(self, request: HttpRequest) -> HttpAnswer:
        usage = self._node.usage()
        return json_answer({"freeSpace": usage.free_bytes, "totalSpace": usage.total_bytes})

    async def _config(self, request: HttpRequest) -> HttpAnswer:
        return json_answer(dict(self._settings))

    async def _garbage(self, request: HttpRequest) -> HttpAnswer:
        ledgers, size_bytes = self._node.garbage_held or (None, None)
        return json_answer({"held_ledgers": ledgers, "held_bytes": size_bytes})

    async def _collect(self, request: HttpRequest) -> HttpAnswer:
        report = await self._node.collect_garbage(Compaction.NONE)
        done = f"{report.ledgers_deleted} ledgers forgotten, {report.logs_dropped} logs removed"
        return text_answer(200, f"{done}; held: {report.held_reason}" if report.held_reason else done)
