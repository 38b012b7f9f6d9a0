"""`bookie cookie fix`: a person's repair of a stopped bookie that lost volumes (BP-46). Shows its plan, wants --yes.

The bookie must be stopped: while it runs, `bookie integrity grant` does the same through its admin port.
"""

import argparse
import dataclasses
from typing import Any

from bookie.base import errors
from bookie.cli import directories, output, reports, server_options, settings, where, who
from bookie.integrity import by_hand
from bookie.integrity.boot import Boot
from bookie.integrity.options import MANUAL
from bookie.ports.admin import Verdict
from bookie.ports.metadata_store import MetadataStore
from bookie.runtime.world import open_world

# Marking all ledgers is work for a busy disk, during which the session must not end.
_SESSION_MS = 30_000


async def run(arguments: argparse.Namespace) -> int:
    if not arguments.config:
        raise errors.BadInput("add --config FILE, the settings file of the bookie that lost its volumes")
    where.uri_of(arguments)  # refuses two clusters that contradict each other
    effective = server_options.build(settings.load(arguments), look=directories.look)
    options = effective.options
    integrity_options = dataclasses.replace(options.integrity, regeneration=MANUAL)
    async with (
        open_world(effective.host, effective.metadata_security) as world,
        where.session(world, options.metadata_uri, session_ms=_SESSION_MS) as metadata,
    ):
        boot = Boot(options.bookie_id, options.storage, integrity_options, world, options.client_options())
        return await _settle(arguments, boot, metadata)


async def _settle(arguments: argparse.Namespace, boot: Boot, metadata: MetadataStore) -> int:
    report = await boot.inspect(metadata)
    facts: dict[str, Any] = {"bookie": report.bookie_id, "verdict": report.verdict.value if report.verdict else None}
    if report.verdict in by_hand.NOTHING_TO_FIX:
        output.say_nothing_to_do(arguments, {**facts, "fixed": False}, f"nothing to fix: {report.reason}")
        return 0
    if report.verdict not in by_hand.FIXABLE:
        raise errors.GrantRefused("held", f"bookie {report.bookie_id} is held ({facts['verdict']}): {report.reason}")
    if not output.consents(arguments, reports.plan(report, is_stopped=True)):
        return 0
    grant = reports.grant_for(report, "bookie cookie fix", f"local: bookie cookie fix by {who.caller()}")
    await by_hand.fix(boot, metadata, None if report.verdict is Verdict.RESUME else grant)
    text = f"start bookie {report.bookie_id} now: it copies back what it lost while it serves"
    output.say(arguments, {**facts, "fixed": True}, text)
    return 0
