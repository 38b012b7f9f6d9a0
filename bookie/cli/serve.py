"""`bookie serve`: one bookie, until SIGTERM. Builds the real world around `server.Bookie`, and nothing else."""

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from bookie.base import errors, extras
from bookie.cli import settings
from bookie.ports.time_limit import TimeLimit

if TYPE_CHECKING:
    from bookie.cli.server_options import Effective
    from bookie.ports import World
    from bookie.ports.metadata_store import MetadataStore
    from bookie.ports.metrics import Histogram, Sample, Telemetry
    from bookie.ports.network import Address
    from bookie.ports.tls import TlsOptions
    from bookie.runtime.admin_secure import Secured
    from bookie.runtime.http import Known
    from bookie.server.bookie import Bookie
    from bookie.server.options import ServerOptions

log = logging.getLogger(__name__)

Serve = Callable[["Address"], AbstractAsyncContextManager[int]]

# Of the session for questions about the cluster: how long a question waits, and an end may take.
_SESSION_MS = 10_000
_END_SESSION_S = 1.0


def add_verbs(noun: argparse.ArgumentParser) -> None:
    settings.add_flags(noun)
    noun.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if module := extras.missing("bookie"):
        raise errors.RefusedToStart(extras.sentence("bookie serve", module))
    # gRPC's core tells of each broken handshake, past our log: lines that every stranger can cause.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from bookie.cli import directories, server_options
    from bookie.runtime import log as runtime_log
    from bookie.runtime import loop

    loaded = settings.load(arguments)
    effective = server_options.build(loaded, look=directories.look)
    runtime_log.set_up(loaded.text("logLevel"))
    for warning in loaded.warnings:
        log.warning("%s", warning)
    for value in effective.settings.values.values():
        if not value.is_default:
            log.info("setting %s=%s origin=%s", value.setting.key, value.text, value.origin)
    if extras.hot_modules() == "sources":
        log.info("hot modules are sources, slower than the image's; BOOKIE_NATIVE=1 at `pip install` compiles them")
    _check_not_taken(effective)
    return loop.run(_serve(effective))


def _check_not_taken(effective: "Effective") -> None:
    """Check ports and locks now; otherwise the bookie would find a taken one only after it asked the metadata store,
    read a journal and stamped volumes. A port or lock that is taken after this check is found later. Raises
    RefusedToStart.
    """
    from bookie.cli import directories
    from bookie.ports import network
    from bookie.runtime import place

    ports = {
        "bookiePort": network.Address(effective.options.listen_host, effective.options.port),
        "adminPort": effective.admin,
        "adminTlsPort": effective.admin_tls,
        "metricsPort": effective.metrics,
        "httpServerPort": effective.http,
    }
    if reason := directories.held(effective.settings, directories.look):
        raise errors.RefusedToStart(reason)
    asked = {key: address for key, address in ports.items() if address is not None and effective.is_asked_for(key)}
    reasons = {key: place.why_not_to_listen(address) for key, address in asked.items()}
    if any(reasons.values()):
        raise errors.RefusedToStart("; ".join(f"{key}: {reason}" for key, reason in reasons.items() if reason))


async def _serve(effective: "Effective") -> int:
    from bookie.runtime import admin, admin_secure, loop, memory, metrics
    from bookie.runtime import log as runtime_log
    from bookie.runtime.admin_callers import Callers
    from bookie.runtime.certificates import CertificateWatch
    from bookie.runtime.world import open_world
    from bookie.server.bookie import Bookie

    options = _within_descriptors(effective.options)
    told, tls = effective.settings.text, None
    if effective.admin_tls is not None:
        from bookie.runtime.admin_tls import Certificates

        tls = admin_secure.Secured(effective.admin_tls, Certificates(told("adminTlsDirectory")))
    callers = Callers(
        told("adminTokenFile"),
        in_pod=bool(effective.host.pod_uid),
        names=tls.certificates if tls is not None else None,
        own_host=effective.admin.host,
    )
    async with open_world(effective.host, effective.metadata_security) as world:
        node = Bookie(options, world)
        node.live.take_with("logLevel", lambda level: runtime_log.set_level(str(level)))
        certificates = CertificateWatch(_with_certificates(effective))
        node.admin.certificates_due = certificates.due

        def telemetry() -> "Iterable[Sample | Histogram]":
            return itertools.chain(node.telemetry(), certificates.samples())

        loop.settle_memory()
        loop.on_uncaught(node.uncaught)
        loop.on_stop_signals(node.request_stop)
        # Both ports are up before anything else happens: a bookie that waits or is stuck can be asked why.
        async with (
            _listening(
                effective,
                "adminPort",
                effective.admin,
                lambda at: admin.serve(node.admin, at, callers, node.doors, tls=tls, socket=told("adminSocket")),
            ),
            _listening(
                effective, "metricsPort", effective.metrics, lambda at: metrics.serve(telemetry, at, node.doors)
            ),
            _serving_http(node, effective, world, tls, telemetry),
            memory.returned_when_idle(),
            certificates.running(),
        ):
            await node.run()
    return 0


def _tell_of_little_memory(options: "ServerOptions") -> None:
    """Warn when caches and clients may take more memory than this container has: the kernel would kill the bookie."""
    from bookie.base import budgets, units
    from bookie.runtime import memory

    storage, limit = options.storage, memory.limit_bytes()
    need = budgets.memory_need_bytes(
        ledger_dirs=len(storage.ledger_dirs),
        journal_dirs=len(storage.journal_dirs),
        write_cache_bytes=storage.write_cache_bytes_max,
        read_cache_bytes=storage.read_cache_bytes_max,
        frame_bytes_max=options.frame_bytes_max,
        budgets=options.budgets,
    )
    if limit is not None and limit < need:
        log.warning(
            "this container may use %s, caches and clients may take %s: raise its limit, or set smaller caches",
            units.format_bytes(limit),
            units.format_bytes(need),
        )


def _within_descriptors(options: "ServerOptions") -> "ServerOptions":
    """Lower the bound on connections to what this process has descriptors for, beside its files."""
    from bookie.runtime import descriptors

    _tell_of_little_memory(options)
    limit = descriptors.raise_limit()
    storage = options.storage
    directories = len(storage.ledger_dirs) + len(storage.journal_dirs)
    most = descriptors.for_connections(limit, directories)
    if most >= options.budgets.connections:
        return options
    log.warning(
        "only %d client connections instead of %d: this process may have %d descriptors; raise that limit (ulimit -Hn)",
        most,
        options.budgets.connections,
        limit,
    )
    return dataclasses.replace(options, budgets=dataclasses.replace(options.budgets, connections=most))


@contextlib.asynccontextmanager
async def _listening(effective: "Effective", key: str, address: "Address", serve: "Serve") -> AsyncIterator[int]:
    """Serve at `address`. If that port is taken and the settings do not name it, serve at any free port and warn."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(serve(address))
        except errors.RefusedToStart as error:
            if effective.is_asked_for(key):
                raise
            port = await stack.enter_async_context(serve(address._replace(port=0)))
            log.warning(
                "%s is not set and %d is taken: it is %d until the next start reason=%s", key, address.port, port, error
            )
        yield port


@contextlib.asynccontextmanager
async def _serving_http(
    node: "Bookie", effective: "Effective", world: "World", secured: "Secured | None", telemetry: "Telemetry"
) -> AsyncIterator[None]:
    """Serve Java's admin paths over HTTP, if the settings want them."""
    from bookie.cli import server_options
    from bookie.runtime import http, metrics
    from bookie.server.cluster_paths import ClusterPaths
    from bookie.server.http_paths import HttpPaths

    if effective.http is None:
        yield
        return
    session = _Session(world, effective.options.metadata_uri)
    paths = HttpPaths(
        node.admin,
        metrics.page(telemetry),
        server_options.without_secrets(effective),
        more=ClusterPaths(session.open, effective.options.metadata_uri).answers,
    )
    try:
        known = _known(effective, secured)
        serve: Serve = lambda at: http.serve(paths.answer, at, node.doors, known)  # noqa: E731
        async with _listening(effective, "httpServerPort", effective.http, serve) as node.http_port:
            yield
    finally:
        await session.close()


def _known(effective: "Effective", secured: "Secured | None") -> "Known":
    """Return the callers that get more than health and metrics over HTTP."""
    from bookie.runtime import http

    hosts = frozenset() if effective.host.pod_uid else http.Known().hosts | {effective.admin.host}
    if secured is None or not effective.settings.is_true("httpServerTlsEnable"):
        return http.Known(hosts)
    from bookie.runtime import http_tls

    context = http_tls.context(effective.settings.text("adminTlsDirectory"))
    return http.Known(hosts, context, secured.certificates.name_of)


def _with_certificates(effective: "Effective") -> dict[str, "TlsOptions"]:
    """Return by port the files with certificates that this bookie uses. HTTP has those of the admin port."""
    ports = {"data": effective.options.security.tls, "metadata": effective.metadata_security.tls}
    found = {port: options for port, options in ports.items() if options is not None}
    if directory := effective.settings.text("adminTlsDirectory"):
        from bookie.runtime import http_tls

        found["admin"] = http_tls.options(directory)
    return found


class _Session:
    """A session with the metadata store for questions about the cluster; the first question opens it.

    It is not the session of the bookie itself: a list of a million ledgers must not delay the bookie's registration.
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
                async with TimeLimit(_END_SESSION_S):
                    await self._store.close()
