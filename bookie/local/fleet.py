"""Starts a local fleet, prints what it started, and ends it."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookie.base import errors
from bookie.client import cluster
from bookie.local import java, layout, processes
from bookie.local.layout import LocalBookie
from bookie.local.processes import Child
from bookie.metadata import paths
from bookie.ports import World
from bookie.ports.metadata_store import MetadataStore, find
from bookie.ports.time_limit import TimeLimit

log = logging.getLogger(__name__)

# Generous: a loaded machine needs seconds for each interpreter that starts.
_START_TIMEOUT_S = 120.0
_POLL_S = 0.1
_ROOT = "/ledgers"
# One attempt to reach the store, while it starts.
_CONNECT_TIMEOUT_MS = 2000


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """The options of `bookie local`. Without `metadata_uri` a ZooKeeper is started."""

    data: Path
    bookies: int
    metadata_uri: str | None = None
    base_port: int | None = None
    zookeeper_port: int | None = None
    journal_write_data: bool = True
    regeneration: str = "gated"


@dataclass(frozen=True, slots=True)
class Fleet:
    uri: str
    bookies: tuple[tuple[LocalBookie, Child], ...]

    def facts(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "metadataServiceUri": self.uri,
            "bookies": [
                {
                    "id": bookie.bookie_id,
                    "port": bookie.port,
                    "adminPort": bookie.admin_port,
                    "metricsPort": bookie.metrics_port,
                    "pid": child.pid,
                    **bookie.volumes,
                    "config": str(bookie.config),
                    "log": str(bookie.log),
                }
                for bookie, child in self.bookies
            ],
        }


@contextlib.asynccontextmanager
async def run(options: FleetOptions, world: World) -> AsyncIterator[Fleet]:
    """Start everything and wait until all bookies are registered; end everything on the way out.

    Raises BadInput, and RefusedToStart with the end of the log of the process that did not start.
    """
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(layout.held(options.data))
        uri, store = (options.metadata_uri, None) if options.metadata_uri else await _start_zookeeper(options, stack)
        metadata = await _connect(world, uri)
        stack.push_async_callback(metadata.close)
        await cluster.ensure_cluster(metadata, uri, world.entropy)
        children: list[Child] = []
        stack.push_async_callback(_stop_all, children)
        fleet = layout.plan(options.data, options.bookies, options.base_port)
        registrations = _Registrations(metadata, paths.available(paths.parse_uri(uri).root), fleet)
        before = set((await registrations.owners()).values())
        for bookie in fleet:
            layout.write_config(
                bookie, uri, journal_write_data=options.journal_write_data, regeneration=options.regeneration
            )
            command = [sys.executable, "-m", "bookie", "serve", "--config", str(bookie.config)]
            children.append(await processes.start(f"bookie-{bookie.number}", command, bookie.log))
        log.info("waiting for %d bookies to register", len(fleet))
        await _wait_registered(registrations, before, children)
        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(child.watch()) for child in (*children, *([store] if store else ()))]
            try:
                yield Fleet(uri, tuple(zip(fleet, children, strict=True)))
            finally:
                for watcher in watchers:
                    watcher.cancel()


async def _start_zookeeper(options: FleetOptions, stack: contextlib.AsyncExitStack) -> tuple[str, Child]:
    """Start it, and wait until it serves; return its URI and its process, which `stack` stops."""
    folder = options.data / "zookeeper"
    port = options.zookeeper_port or _port_before(folder) or layout.free_ports(1)[0]
    layout.check_free(port)
    command = java.zookeeper_command(folder, port)
    log_path = options.data / "logs" / "zookeeper.log"
    child = await processes.start("zookeeper", command, log_path, environment=java.ENVIRONMENT)
    stack.push_async_callback(child.stop)
    log.info("starting ZooKeeper port=%d pid=%d", port, child.pid)
    async with _deadline("ZooKeeper", child):
        while not await _is_serving(port):
            child.check()
            await asyncio.sleep(_POLL_S)
    return f"zk+hierarchical://127.0.0.1:{port}{_ROOT}", child


def _port_before(folder: Path) -> int | None:
    """Return the port that an earlier run on this data used, so that settings files written then stay true."""
    settings = folder / "zoo.cfg"
    if not settings.exists():
        return None
    for line in settings.read_text(encoding="utf-8").splitlines():
        if line.startswith("clientPort="):
            return int(line.partition("=")[2])
    return None


async def _is_serving(port: int) -> bool:
    """True when a ZooKeeper answers "are you ok" (its four-letter words)."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(b"srvr")
        async with TimeLimit(1):
            return b"Mode:" in await reader.read()
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()


async def _connect(world: World, uri: str) -> MetadataStore:
    """Connect to the metadata store; retry, since a store whose port is open may not answer yet."""
    attempts_left = int(_START_TIMEOUT_S * 1000 / _CONNECT_TIMEOUT_MS)
    while True:
        try:
            return await world.metadata_stores.connect(uri, session_timeout_ms=_CONNECT_TIMEOUT_MS)
        except errors.MetadataError:
            attempts_left -= 1
            if attempts_left == 0:
                raise


class _Registrations:
    """The registrations of the bookies of a fleet, writable ones."""

    def __init__(self, metadata: MetadataStore, parent: str, fleet: Sequence[LocalBookie]) -> None:
        self._metadata = metadata
        self._paths = [f"{parent}/{bookie.bookie_id}" for bookie in fleet]

    async def owners(self) -> dict[str, int]:
        """Return the session of each that is there, by path. Raises MetadataError."""
        found = [(path, await find(self._metadata, path)) for path in self._paths]
        return {path: stored.owner for path, stored in found if stored is not None}

    async def are_all_but_of(self, sessions: Set[int]) -> bool:
        owners = await self.owners()
        return len(owners) == len(self._paths) and sessions.isdisjoint(owners.values())


async def _wait_registered(registrations: _Registrations, before: Set[int], children: Sequence[Child]) -> None:
    """Wait for all. Those of the sessions `before` are of bookies that were killed: they stand until these end."""
    async with _deadline("the fleet", *children):
        while True:
            for child in children:
                child.check()
            with contextlib.suppress(errors.MetadataError):  # a busy machine: the session comes back, or the deadline
                if await registrations.are_all_but_of(before):  # ends this
                    return
            await asyncio.sleep(_POLL_S)


@contextlib.asynccontextmanager
async def _deadline(what: str, *children: Child) -> AsyncIterator[None]:
    try:
        async with TimeLimit(_START_TIMEOUT_S):
            yield
    except TimeoutError:
        tails = "\n".join(f"--- {child.log_path}\n{child.log_tail()}" for child in children)
        raise errors.RefusedToStart(f"{what} was not ready within {_START_TIMEOUT_S:.0f} s\n{tails}") from None


async def _stop_all(children: Sequence[Child]) -> None:
    async with asyncio.TaskGroup() as group:
        for child in children:
            group.create_task(child.stop())
