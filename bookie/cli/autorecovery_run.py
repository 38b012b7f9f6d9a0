"""`bookie autorecovery run`: one process that audits the cluster and mends what lacks replicas, until SIGTERM."""

import argparse
import contextlib
import itertools
import os
import socket
from typing import Any

from bookie.base import errors, ids
from bookie.cli import output, where
from bookie.ports.network import Address
from bookie.settings.table import PORT_MAX

# Java keeps the delay of a loss in 32 bits, and a century will do for the others.
_SECONDS_MAX = 2**31 - 1
_NUMBER_MAX = 2**63 - 1
# Option, flag, how many of the option's units one of the flag's is, and the largest.
_OPTIONS = (
    ("loss_delay_ms", "loss_delay", 1000, _SECONDS_MAX),
    ("audit_interval_ms", "audit_interval", 1000, _SECONDS_MAX),
    ("check_interval_ms", "check_interval", 1000, _SECONDS_MAX),
    ("probe_interval_ms", "probe_interval", 1000, _SECONDS_MAX),
    ("open_ledger_grace_ms", "open_ledger_grace", 1000, _SECONDS_MAX),
    ("bytes_per_s", "bytes_per_second", 1, _NUMBER_MAX),
    ("ledgers_at_once", "ledgers_at_once", 1, _NUMBER_MAX),
    ("check_ledgers_per_s", "check_rate", 1, _NUMBER_MAX),
)
_SESSION_MS = 30_000  # Java's zkTimeout for auto-recovery is no shorter: a vote should outlive a pause


def add_parser(verbs: Any) -> None:
    """Add the verb `run`."""
    made = output.add_verb(
        verbs,
        "run",
        "look for ledgers that lack replicas and make them whole, until SIGTERM; any number of these may run",
        where.add_cluster,
        run=run,
    )
    made.add_argument("--json", action="store_true", help="log in JSON, one object a line")
    made.add_argument("--name", metavar="NAME", help="the name of this process in the vote for auditor (HOST-PID)")
    made.add_argument("--metrics", metavar="HOST:PORT", help="serve /metrics there")
    made.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"), help="(INFO)")
    made.add_argument(
        "--bytes-per-second",
        type=output.whole,
        metavar="N",
        help="copy at most so many bytes to each bookie (no limit)",
    )
    made.add_argument("--ledgers-at-once", type=output.whole, metavar="N", help="work on so many ledgers (8)")
    made.add_argument(
        "--loss-delay",
        type=output.whole,
        metavar="SECONDS",
        help="how long a silent bookie is waited for, where the cluster has no value yet (60; `autorecovery delay`)",
    )
    made.add_argument(
        "--audit-interval", type=output.whole, metavar="SECONDS", help="between two looks at all records (3600)"
    )
    made.add_argument(
        "--check-interval",
        type=output.whole,
        metavar="SECONDS",
        help="between two comparisons with bookies' lists; 0: never (600)",
    )
    made.add_argument(
        "--probe-interval",
        type=output.whole,
        metavar="SECONDS",
        help="between two comparisons that read of each share the lowest and the highest entry; 0: never (604800)",
    )
    made.add_argument(
        "--check-rate", type=output.whole, metavar="N", help="compare at most so many ledgers a second (200)"
    )
    made.add_argument(
        "--open-ledger-grace",
        type=output.whole,
        metavar="SECONDS",
        help="how long the writer of an open ledger that names a lost bookie may be silent (30)",
    )


def run(arguments: argparse.Namespace) -> int:
    from bookie.runtime import loop

    return loop.run(_run(arguments))


def _options(arguments: argparse.Namespace) -> Any:
    """Return the options that are given, in the words of whom they are for. Raises BadInput in the words of who gave
    them."""
    from bookie.client.repair.autorecovery_options import MAY_BE_ZERO, AutoRecoveryOptions

    given = {}
    for name, flag, unit, most in _OPTIONS:
        value = getattr(arguments, flag)
        least = 0 if name in MAY_BE_ZERO else 1
        if value is None:
            continue
        if not least <= value <= most:
            raise errors.BadInput(f"--{flag.replace('_', '-')} is {value}: it must be {least} to {most}")
        given[name] = value * unit
    return AutoRecoveryOptions(**given)


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    number = ids.decimal(port)
    if not host or number is None or number > PORT_MAX:
        raise errors.BadInput(f"--metrics {text!r} is not HOST:PORT, e.g. 0.0.0.0:9090")
    return Address(host.strip("[]"), number)


async def _run(arguments: argparse.Namespace) -> int:
    from bookie.client.repair.daemon import AutoRecoveryDaemon
    from bookie.runtime import log, loop, metrics
    from bookie.runtime.certificates import CertificateWatch

    log.set_up(arguments.log_level, as_json=arguments.json)
    options = _options(arguments)
    metrics_at = _address(arguments.metrics) if arguments.metrics else None
    me = ids.parse_bookie_id(arguments.name or f"{socket.gethostname()}-{os.getpid()}")
    async with where.client(arguments, session_ms=_SESSION_MS) as client, contextlib.AsyncExitStack() as stack:
        daemon = AutoRecoveryDaemon(client.shared, me, options)
        loop.on_stop_signals(daemon.request_stop)
        certificates = CertificateWatch(where.certificates(arguments))
        await stack.enter_async_context(certificates.running())
        if metrics_at is not None:
            telemetry = metrics.serve(lambda: itertools.chain(daemon.samples(), certificates.samples()), metrics_at)
            await stack.enter_async_context(telemetry)
        await daemon.run()
    return 0
