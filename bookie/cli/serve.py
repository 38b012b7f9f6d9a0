"""`bookie serve`: one bookie, until SIGTERM. Builds the real world around `server.Bookie`, and nothing else."""

import argparse
import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from bookie.base import errors
from bookie.cli import settings

if TYPE_CHECKING:
    from bookie.cli.server_options import Effective
    from bookie.ports import World
    from bookie.ports.metadata_store import MetadataStore
    from bookie.runtime.place import Place
    from bookie.server.bookie import Bookie

log = logging.getLogger(__name__)

# Of the session for questions about the cluster: how long a question waits, and an end may take.
_SESSION_MS = 10_000
_END_SESSION_S = 1.0


def add_parser(nouns: Any) -> None:
    noun = nouns.add_parser("serve", help="run one bookie until SIGTERM")
    settings.add_flags(noun)
    noun.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from bookie.runtime import loop

    with loop.ended_by_stop_signals():
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    from bookie.cli import server_options
    from bookie.runtime import log as runtime_log
    from bookie.runtime import loop

    loaded = settings.load(arguments)
    effective = server_options.build(loaded, look=_look)
    runtime_log.set_up(loaded.text("logLevel"))
    for warning in loaded.warnings:
        log.warning("%s", warning)
    for value in effective.settings.values.values():
        if not value.is_default:
            log.info("setting %s=%s origin=%s", value.setting.key, value.shown, value.origin)
    _check_not_taken(effective)
    return loop.run(_serve(effective))


def _look(path: str) -> "Place":
    from bookie.runtime import place
    from bookie.storage import dirs

    return place.look(path, inside=dirs.CURRENT, lock=dirs.LOCK)


def _check_not_taken(effective: "Effective") -> None:
    """Tell at once what would else be told when the metadata store has answered, a journal is read and volumes are
    stamped. Who takes a port or a lock after this is met then. Raises RefusedToStart.
    """
    from bookie.cli import directories
    from bookie.ports.network import Address
    from bookie.runtime import place

    ports = {
        "bookiePort": Address(effective.options.listen_host, effective.options.port),
        "adminPort": effective.admin,
        "metricsPort": effective.metrics,
        "httpServerPort": effective.http,
    }
    if reason := directories.held(effective.settings, _look):
        raise errors.RefusedToStart(reason)
    reasons = {key: place.why_not_to_listen(address) for key, address in ports.items() if address is not None}
    if any(reasons.values()):
        raise errors.RefusedToStart("; ".join(f"{key}: {reason}" for key, reason in reasons.items() if reason))


async def _serve(effective: "Effective") -> int:
    from bookie.runtime import admin, loop, memory, metrics
    from bookie.runtime.admin_callers import Callers
    from bookie.runtime.world import open_world
    from bookie.server.bookie import Bookie

    callers = Callers(effective.settings.text("adminTokenFile"), trusts_network=bool(effective.host.pod_uid))
    async with open_world(effective.host) as world:
        node = Bookie(effective.options, world)
        loop.settle_memory()
        loop.on_uncaught(node.fail)
        loop.on_stop_signals(node.request_stop)
        # Both ports are up before anything else happens: a bookie that waits or is stuck can be asked why.
        async with (
            admin.serve(node, effective.admin, callers),
            metrics.serve(node.telemetry, effective.metrics),
            _serving_http(node, effective, world),
            memory.returned_when_idle(),
        ):
            await node.run()
    return 0


@contextlib.asynccontextmanager
async def _serving_http(node: "Bookie", effective: "Effective", world: "World") -> AsyncIterator[None]:
    """Java's admin paths, where they are wanted."""
    from bookie.cli import server_options
    from bookie.runtime import http, metrics
    from bookie.server.cluster_paths import ClusterPaths
    from bookie.server.http_paths import HttpPaths

    if effective.http is None:
        yield
        return
    changes_from_anywhere = effective.settings.text("httpServerChangesFrom") == "any"
    session = _Session(world, effective.options.metadata_uri)
    paths = HttpPaths(
        node,
        metrics.page(node.telemetry),
        server_options.without_secrets(effective),
        more=ClusterPaths(session.open, effective.options.metadata_uri).answers,
        changes_from_anywhere=changes_from_anywhere,
    )
    try:
        async with http.serve(paths.answer, effective.http):
            yield
    finally:
        await session.close()


class _Session:
    """A session with the metadata store for whoever asks about the cluster, begun by the first who does.

    Not the bookie's own: a list of a million ledgers must not stand between it and its registration.
    """

    def __init__(self, world: "World", uri: str) -> None:
        self._world = world
        self._uri = uri
        self._opening = asyncio.Lock()
        self._store: MetadataStore | None = None

    async def open(self) -> "MetadataStore":
        async with self._opening:
            if self._store is None:
                self._store = await self._world.metadata_stores.connect(self._uri, session_timeout_ms=_SESSION_MS)
            return self._store

    async def close(self) -> None:
        if self._store is not None:
            with contextlib.suppress(TimeoutError, errors.MetadataError):
                async with asyncio.timeout(_END_SESSION_S):
                    await self._store.close()
