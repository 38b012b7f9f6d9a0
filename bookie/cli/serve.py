"""`bookie serve`: one bookie, until SIGTERM. Builds the real world around `server.Bookie`, and nothing else."""

import argparse
import logging
from typing import Any

from bookie.cli import settings
from bookie.server.options import ServerOptions

log = logging.getLogger(__name__)


def add_parser(nouns: Any) -> None:
    noun = nouns.add_parser("serve", help="run one bookie until SIGTERM")
    settings.add_flags(noun)
    noun.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from bookie.runtime import log as runtime_log
    from bookie.runtime import loop

    loaded = settings.load(arguments)
    options = loaded.server_options()
    runtime_log.set_up(loaded.text("logLevel"))
    for warning in loaded.warnings:
        log.warning("%s", warning)
    return loop.run(_serve(loaded, options))


async def _serve(loaded: settings.Settings, options: ServerOptions) -> int:
    from bookie.runtime import admin, loop, metrics
    from bookie.runtime.world import open_world
    from bookie.server.bookie import Bookie

    async with open_world(loaded.host) as world:
        node = Bookie(options, world)
        loop.settle_memory()
        loop.on_uncaught(node.fail)
        # Both ports are up before anything else happens: a bookie that waits or is stuck can be asked why.
        async with (
            admin.serve(node, loaded.address("adminPort")),
            metrics.serve(node.telemetry, loaded.address("metricsPort")),
        ):
            loop.on_stop_signals(node.request_stop)
            await node.run()
    return 0
