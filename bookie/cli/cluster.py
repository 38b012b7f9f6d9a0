"""`bookie cluster`: make a cluster in the metadata store, see what it says of itself and which bookies it has.

What moves ledgers from bookie to bookie is in `evacuate`.
"""

import argparse
import json
from typing import TYPE_CHECKING, Any

from bookie.cli import output, where

if TYPE_CHECKING:
    from bookie.ports.metadata_store import MetadataStore

WRITABLE, READ_ONLY, GONE = "writable", "read-only", "gone"
_COLUMNS = {"id": "BOOKIE", "state": "STATE", "address": "ADDRESS", "zone": "ZONE", "endpoints": "ENDPOINTS"}
_SPACE_COLUMNS = {**_COLUMNS, "freeBytes": "FREE BYTES", "totalBytes": "TOTAL BYTES"}


def add_parser(nouns: Any) -> None:
    from bookie.cli import evacuate

    noun = nouns.add_parser("cluster", help="make a cluster, see it and its bookies, move ledgers off a bookie")
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    show = verbs.add_parser("show", help="instance id, ledger layout, how many bookies and of which kind")
    listing = verbs.add_parser("list-bookies", help="registered bookies, and those that have a cookie but are gone")
    listing.add_argument("--state", choices=(WRITABLE, READ_ONLY, GONE), action="append", help="only these")
    listing.add_argument("--space", action="store_true", help="also ask each how much room its ledger disks have")
    init = verbs.add_parser("init", aliases=["format"], help="make a new, empty cluster; refuses one that exists")
    init.add_argument("--if-missing", action="store_true", help="an existing cluster is fine and left as it is")
    evacuate.add_parsers(verbs)
    for verb, run in ((show, run_show), (listing, run_list), (init, run_init)):
        where.add_cluster(verb)
        output.add_json(verb)
        verb.set_defaults(run=run)


def run_show(arguments: argparse.Namespace) -> int:
    from bookie.runtime import loop

    facts = loop.run(_show(arguments))
    output.say(arguments, facts, output.facts(facts))
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    from bookie.runtime import loop

    output.rows(arguments, loop.run(_list(arguments)), _SPACE_COLUMNS if arguments.space else _COLUMNS)
    return 0


def run_init(arguments: argparse.Namespace) -> int:
    from bookie.runtime import loop

    instance_id = loop.run(_init(arguments))
    print(json.dumps({"instanceId": instance_id}) if arguments.json else f"cluster instance id {instance_id}")
    return 0


async def _show(arguments: argparse.Namespace) -> dict[str, Any]:
    from bookie.client import cluster

    async with where.store(arguments) as (store, uri, _):
        instance_id = await cluster.instance_id(store, uri.root)
        layout = await cluster.open_layout(store, uri)
        bookies = await list_bookies(store, uri.root)
    counts = {state: sum(bookie["state"] == state for bookie in bookies) for state in (WRITABLE, READ_ONLY, GONE)}
    return {
        "instanceId": instance_id or None,
        "root": uri.root,
        "servers": uri.hosts,
        "layout": layout.value,
        "bookiesWritable": counts[WRITABLE],
        "bookiesReadOnly": counts[READ_ONLY],
        "bookiesGone": counts[GONE],
    }


async def _list(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from bookie.client import cluster

    async with where.store(arguments) as (store, uri, _):
        await cluster.instance_id(store, uri.root)  # tells when there is no cluster at all
        found = await list_bookies(store, uri.root)
    found = [bookie for bookie in found if not arguments.state or bookie["state"] in arguments.state]
    return await _with_space(arguments, found) if arguments.space else found


async def _with_space(arguments: argparse.Namespace, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each living bookie says of its ledger disks; None where it says nothing."""
    from bookie.base import errors, ids

    told: list[dict[str, Any]] = []
    async with where.client(arguments) as client:
        for bookie in found:
            total = free = None
            if bookie["state"] != GONE:
                try:
                    total, free = await client.bookies.info(ids.parse_bookie_id(bookie["id"]))
                except errors.BookieError as error:
                    output.tell(f"bookie {bookie['id']} does not say how much room it has: {error}")
            told.append({**bookie, "freeBytes": free, "totalBytes": total})
    return told


async def list_bookies(store: "MetadataStore", root: str) -> list[dict[str, Any]]:
    """Registered bookies by id, then those that only have a cookie."""
    from bookie.metadata import paths

    found: dict[str, dict[str, Any]] = {}
    for directory, state in ((paths.available(root), WRITABLE), (paths.readonly(root), READ_ONLY)):
        for name in await children(store, directory):
            if name != "readonly":
                found[name] = await _facts(store, f"{directory}/{name}", name, state)
    alive = sorted(found.values(), key=lambda bookie: str(bookie["id"]))
    gone = [name for name in await children(store, paths.cookies(root)) if name not in found]
    return alive + [{"id": name, "state": GONE, "address": None, "zone": "", "endpoints": []} for name in gone]


async def children(store: "MetadataStore", path: str) -> list[str]:
    """Names below `path`; none when it is not there."""
    from bookie.base import errors

    try:
        return await store.children(path)
    except errors.NodeMissing:
        return []


async def _facts(store: "MetadataStore", path: str, name: str, state: str) -> dict[str, Any]:
    from bookie.base import errors
    from bookie.base.ids import BookieId
    from bookie.metadata import registration

    try:
        info = registration.load_service_info(BookieId(name), (await store.get(path)).data)
    except (errors.NodeMissing, errors.BadInput):  # gone meanwhile, or a record nobody can read
        info = registration.BookieServiceInfo()
    endpoint = info.bookie_endpoint
    return {
        "id": name,
        "state": state,
        "address": None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        "zone": info.property("zone"),
        "endpoints": [f"{each.protocol}://{each.host}:{each.port}" for each in info.endpoints],
    }


async def _init(arguments: argparse.Namespace) -> str:
    from bookie.client import cluster

    async with where.store(arguments) as (store, _, world):
        make = cluster.ensure_cluster if arguments.if_missing else cluster.format_cluster
        return await make(store, where.uri_of(arguments), world.entropy)
