"""`bookie cookie fix`: a person's repair of a stopped bookie that lost volumes (BP-46). Shows its plan, wants --yes.

The bookie must be stopped: while it runs, `bookie integrity grant` does the same through its admin port.
"""

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from bookie.base import errors
from bookie.cli import integrity, output

if TYPE_CHECKING:
    from bookie.cli.server_options import Effective
    from bookie.integrity.boot import Boot
    from bookie.ports.admin import Grant, StorageReport
    from bookie.ports.metadata_store import MetadataStore

_GRANT_TTL_MS = 300_000


def run(arguments: argparse.Namespace) -> int:
    from bookie.cli import server_options, settings
    from bookie.runtime import loop

    if not arguments.config:
        raise errors.BadInput("say --config FILE: the settings of the bookie that lost its volumes")
    return loop.run(_fix(arguments, server_options.build(settings.load(arguments))))


async def _fix(arguments: argparse.Namespace, effective: "Effective") -> int:
    from bookie.integrity.boot import Boot
    from bookie.integrity.options import MANUAL
    from bookie.runtime.world import open_world

    options = effective.options
    integrity_options = dataclasses.replace(options.integrity, regeneration=MANUAL)
    async with open_world(effective.host) as world:
        metadata = await world.metadata_stores.connect(options.metadata_uri)
        try:
            boot = Boot(options.bookie_id, options.storage, integrity_options, world, options.client_options())
            return await _settle(arguments, boot, metadata)
        finally:
            await metadata.close()


async def _settle(arguments: argparse.Namespace, boot: "Boot", metadata: "MetadataStore") -> int:
    from bookie.integrity import by_hand
    from bookie.ports.admin import Verdict

    report = await boot.inspect(metadata)
    facts: dict[str, Any] = {"bookie": report.bookie_id, "verdict": report.verdict.value if report.verdict else None}
    if report.verdict in by_hand.NOTHING_TO_FIX:
        output.say(arguments, {**facts, "fixed": False}, f"nothing to fix: {report.reason}")
        return 0
    if report.verdict not in by_hand.FIXABLE:
        raise errors.GrantRefused("held", f"bookie {report.bookie_id} is held ({facts['verdict']}): {report.reason}")
    if not output.consents(arguments, integrity.plan(_as_fields(report))):
        return 0
    await by_hand.fix(boot, metadata, None if report.verdict is Verdict.RESUME else grant_for(report))
    text = f"bookie {report.bookie_id} may be started: it copies back what it lost while it serves"
    output.say(arguments, {**facts, "fixed": True}, text)
    return 0


def grant_for(report: "StorageReport") -> "Grant":
    """A grant for exactly what `report` shows."""
    import uuid

    from bookie.base.ids import Incarnation
    from bookie.ports.admin import Grant

    return Grant(
        grant_id=f"cli-{uuid.uuid4()}",
        bookie_id=report.bookie_id,
        pod_uid=report.pod_uid,
        evidence_hash=report.evidence_hash,
        cookie_version=report.cookie_version,
        new_incarnation=Incarnation(report.incarnation + 1),
        operator_epoch=report.operator_epoch_seen,
        ttl_ms=_GRANT_TTL_MS,
        issued_by="bookie cookie fix",
    )


def _as_fields(report: "StorageReport") -> dict[str, Any]:
    """The report as the admin port would tell it."""
    from bookie.cli import admin_client
    from bookie.runtime import admin

    return admin_client.fields(admin.report_message(report))
