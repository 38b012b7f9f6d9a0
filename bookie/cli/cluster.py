"""`bookie cluster`: make a cluster in the metadata store, show its records and its bookies.

The verbs that move ledgers from bookie to bookie are in `evacuate`.
"""

import argparse
from typing import Any

from bookie.base import errors, ids
from bookie.base.ids import BookieId
from bookie.cli import bookie_list, evacuate, output, references, where
from bookie.client import Client, cluster

_COLUMNS = {"id": "BOOKIE", "state": "STATE", "address": "ADDRESS", "zone": "ZONE", "endpoints": "ENDPOINTS"}
_SPACE_COLUMNS = {**_COLUMNS, "freeBytes": "FREE BYTES", "totalBytes": "TOTAL BYTES"}


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    flags = (where.add_cluster, output.add_json)
    output.add_verb(
        verbs,
        "show",
        "show instance id, ledger layout and how many bookies the metadata store knows of",
        *flags,
        run=run_show,
    )
    listing = output.add_verb(
        verbs, "list-bookies", "list registered bookies, and those (gone) that only have a cookie", *flags, run=run_list
    )
    listing.add_argument("--state", choices=bookie_list.STATES, action="append", help="list only bookies in this state")
    listing.add_argument(
        "--space", action="store_true", help="also ask each bookie how much room its ledger disks have"
    )
    init = output.add_verb(
        verbs,
        "init",
        "make a new, empty cluster in the metadata store, unless one exists",
        *flags,
        aliases=["format"],
        run=run_init,
    )
    init.add_argument("--if-missing", action="store_true", help="leave a cluster that exists as it is, and succeed")
    references.add_parser(verbs)
    evacuate.add_parsers(verbs)


async def run_list(arguments: argparse.Namespace) -> int:
    async with where.cluster(arguments) as (store, uri, _):
        found = await bookie_list.list_bookies(store, uri.root)
    found = [bookie for bookie in found if not arguments.state or bookie["state"] in arguments.state]
    if arguments.space:
        found = await _with_space(arguments, found)
    output.rows(arguments, found, _SPACE_COLUMNS if arguments.space else _COLUMNS)
    return output.EXIT_OF[output.NOT_KNOWN] if arguments.space and has_silent(found) else 0


def has_silent(found: list[dict[str, Any]]) -> bool:
    """True when a registered bookie did not say how much room it has."""
    return any(each["state"] != bookie_list.GONE and each["freeBytes"] is None for each in found)


async def run_init(arguments: argparse.Namespace) -> int:
    instance_id = await _init(arguments)
    output.say(arguments, {"instanceId": instance_id}, f"cluster instance id {instance_id}")
    return 0


async def run_show(arguments: argparse.Namespace) -> int:
    async with where.cluster(arguments) as (store, uri, _):
        instance_id = await cluster.instance_id(store, uri.root)
        layout = await cluster.open_layout(store, uri)
        bookies = await bookie_list.list_bookies(store, uri.root)
    counts = {state: sum(bookie["state"] == state for bookie in bookies) for state in bookie_list.STATES}
    facts = {
        "instanceId": instance_id or None,
        "root": uri.root,
        "servers": uri.hosts,
        "layout": layout.value,
        "bookiesWritable": counts[bookie_list.WRITABLE],
        "bookiesReadOnly": counts[bookie_list.READ_ONLY],
        "bookiesGone": counts[bookie_list.GONE],
    }
    output.say(arguments, facts, output.facts(facts))
    return 0


async def _with_space(arguments: argparse.Namespace, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return `found` with the space of each living bookie's ledger disks; None where the bookie does not say it."""
    told: list[dict[str, Any]] = []
    async with where.client(arguments) as client:
        for bookie in found:
            total = free = None
            if bookie["state"] != bookie_list.GONE:
                try:
                    total, free = await room_of(client, ids.parse_bookie_id(bookie["id"]))
                except errors.BookieError as error:
                    output.tell(f"bookie {bookie['id']} did not say how much room it has: {error}")
            told.append({**bookie, "freeBytes": free, "totalBytes": total})
    return told


async def room_of(client: Client, bookie_id: BookieId) -> tuple[int, int]:
    """Return the total and the free bytes of the bookie's ledger disks."""
    with output.told_if_slow(f"bookie {bookie_id}"):
        return await client.bookies.info(bookie_id)


async def _init(arguments: argparse.Namespace) -> str:
    async with where.store(arguments) as (store, uri, world):
        if arguments.if_missing and (found := await cluster.find_instance_id(store, uri.root)) is not None:
            return found
        if reason := where.data_beside(arguments):  # it would never belong to the new cluster
            raise errors.GrantRefused("has_data", f"no cluster was made: {reason}")
        make = cluster.ensure_cluster if arguments.if_missing else cluster.format_cluster
        return await make(store, where.uri_of(arguments), world.entropy)
