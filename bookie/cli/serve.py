"""`bookie serve`: one bookie, until SIGTERM. Builds the real world around `server.Bookie`, and nothing else."""

import argparse
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from bookie.cli import settings

if TYPE_CHECKING:
    from bookie.cli.server_options import Effective
    from bookie.server.bookie import Bookie

log = logging.getLogger(__name__)


def add_parser(nouns: Any) -> None:
    noun = nouns.add_parser("serve", help="run one bookie until SIGTERM")
    settings.add_flags(noun)
    noun.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from bookie.cli import server_options
    from bookie.runtime import log as runtime_log
    from bookie.runtime import loop

    loaded = settings.load(arguments)
    effective = server_options.build(loaded)
    runtime_log.set_up(loaded.text("logLevel"))
    for warning in loaded.warnings:
        log.warning("%s", warning)
    for value in effective.settings.values.values():
        if not value.is_default:
            log.info("setting %s=%s origin=%s", value.setting.key, value.shown, value.origin)
    return loop.run(_serve(effective))


async def _serve(effective: "Effective") -> int:
    from bookie.runtime import admin, loop, metrics
    from bookie.runtime.admin_callers import Callers
    from bookie.runtime.world import open_world
    from bookie.server.bookie import Bookie

    callers = Callers(effective.settings.text("adminTokenFile"), trusts_network=bool(effective.host.pod_uid))
    async with open_world(effective.host) as world:
        node = Bookie(effective.options, world)
        loop.settle_memory()
        loop.on_uncaught(node.fail)
        # Both ports are up before anything else happens: a bookie that waits or is stuck can be asked why.
        async with (
            admin.serve(node, effective.admin, callers),
            metrics.serve(node.telemetry, effective.metrics),
            _serving_http(node, effective),
        ):
            loop.on_stop_signals(node.request_stop)
            await node.run()
    return 0


@contextlib.asynccontextmanager
async def _serving_http(node: "Bookie", effective: "Effective") -> AsyncIterator[None]:
    """Java's admin paths, where they are wanted."""
    from bookie.cli import server_options
    from bookie.runtime import http, metrics
    from bookie.server.http_paths import HttpPaths

    if effective.http is None:
        yield
        return
    changes_from_anywhere = effective.settings.text("httpServerChangesFrom") == "any"
    paths = HttpPaths(
        node,
        metrics.page(node.telemetry),
        server_options.without_secrets(effective),
        changes_from_anywhere=changes_from_anywhere,
    )
    async with http.serve(paths.answer, effective.http):
        yield
