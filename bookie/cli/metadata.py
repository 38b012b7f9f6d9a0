"""`bookie metadata`: the records of the metadata store as they stand, for people who must see or save the exact bytes.

All verbs only read, except `restore`, which shows its plan first. Nothing checks a restored record against the bookies.
"""

import argparse
import base64
import contextlib
import hashlib
import sys
from pathlib import Path
from typing import Any

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.cli import metadata_acl, output, where
from bookie.client import cluster
from bookie.metadata import serde


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    flags = (where.add_cluster, output.add_json)
    show = output.add_verb(
        verbs, "show", "show a ledger's record, decoded, with its path and version", *flags, run=run_show
    )
    output.add_ledger(show, nargs="?")
    show.add_argument("--file", type=Path, help="decode this dump instead, without a metadata store")
    dump = output.add_verb(
        verbs, "dump", "write the bytes of a ledger's record to a file or to stdout", *flags, run=run_dump
    )
    output.add_ledger(dump)
    dump.add_argument("--output", type=Path, metavar="FILE", help="write to this file (default: stdout)")
    dump.set_defaults(judge=lambda arguments: output.check_target(arguments.output))
    restore = output.add_verb(
        verbs, "restore", "put a dumped record of a ledger back into the metadata store", *flags, run=run_restore
    )
    output.add_ledger(restore)
    restore.add_argument("file", type=Path, metavar="FILE", help="the dump")
    restore.add_argument("--replace", action="store_true", help="replace the record that is there")
    output.add_consent(restore)
    metadata_acl.add_parser(verbs)


async def run_show(arguments: argparse.Namespace) -> int:
    if (arguments.ledger is None) == (arguments.file is None):
        raise errors.BadInput("name either a ledger, or a dump with --file")
    if arguments.file is not None:
        data = output.read(arguments.file)
        with output.blamed(arguments.file):
            facts = describe(data, created_ms=0)
    else:
        facts = await _show(arguments)
    output.say(arguments, facts, output.facts(facts))
    return 0


async def run_dump(arguments: argparse.Namespace) -> int:
    async with where.cluster(arguments) as (store, uri, _):
        ledgers = await cluster.open_ledgers(store, uri)
        data = (await ledgers.stored(arguments.ledger)).data
    if arguments.output is None and arguments.json:
        output.say(arguments, {"sizeBytes": len(data), "base64": base64.b64encode(data).decode()}, "")
        return 0
    if arguments.output is None:
        sys.stdout.buffer.write(data)
        return 0
    output.write(arguments.output, data)
    output.say(arguments, {"file": str(arguments.output), "sizeBytes": len(data)}, f"{len(data)} bytes")
    return 0


async def run_restore(arguments: argparse.Namespace) -> int:
    if await _restore(arguments, output.read(arguments.file)):
        output.say(arguments, {"ledger": arguments.ledger, "restored": True}, "restored")
    return 0


def describe(data: bytes, *, created_ms: int) -> dict[str, Any]:
    """Return a ledger record as facts; in place of the password, whether there is one."""
    metadata = serde.load_ledger(data, created_ms)
    return {
        "formatVersion": metadata.format_version,
        "state": metadata.state.name,
        "ensembleSize": metadata.ensemble_size,
        "writeQuorum": metadata.write_quorum,
        "ackQuorum": metadata.ack_quorum,
        "lastEntry": metadata.last_entry if metadata.is_closed else None,
        "length": metadata.length if metadata.is_closed else None,
        "digestType": metadata.digest_type,
        "hasPassword": metadata.has_password and bool(metadata.password),
        "createdMs": metadata.ctime_ms,
        "storesCreation": metadata.stores_ctime,
        "creatorToken": metadata.ctoken,
        "segments": [f"{each.first_entry}: {' '.join(each.bookies)}" for each in metadata.segments],
        "custom": {key: value.decode("utf-8", "backslashreplace") for key, value in metadata.custom},
        "sizeBytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


async def _show(arguments: argparse.Namespace) -> dict[str, Any]:
    ledger_id: LedgerId = arguments.ledger
    async with where.cluster(arguments) as (store, uri, _):
        ledgers = await cluster.open_ledgers(store, uri)
        found = await ledgers.stored(ledger_id)
    head = {"ledger": ledger_id, "path": ledgers.path(ledger_id), "version": found.version}
    return {**head, **describe(found.data, created_ms=found.created_ms)}


async def _restore(arguments: argparse.Namespace, data: bytes) -> bool:
    ledger_id: LedgerId = arguments.ledger
    with output.blamed(arguments.file):
        describe(data, created_ms=0)  # what cannot be read is not put there
    async with where.cluster(arguments) as (store, uri, _):
        ledgers = await cluster.open_ledgers(store, uri)
        version = None
        with contextlib.suppress(errors.LedgerMissing):
            version = (await ledgers.stored(ledger_id)).version
        if version is not None and not arguments.replace:
            raise errors.LedgerExists(
                f"ledger {ledger_id} has a record already (version {version}), so nothing was restored: look at it"
                f" (`bookie metadata show {ledger_id}`) and save it (`bookie metadata dump {ledger_id} --output FILE`);"
                " --replace then puts this dump in its place"
            )
        what = "make its record" if version is None else f"replace its record of version {version}"
        plan = [f"plan: ledger {ledger_id}: {what} from {arguments.file} ({len(data)} bytes)"]
        if not output.consents(arguments, plan):
            return False
        await ledgers.put_back(ledger_id, data, version)
    return True
