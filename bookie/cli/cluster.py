"""`bookie cluster`: make a cluster in the metadata store, and see which bookies it has."""

import argparse
import json
from typing import Any


def add_parser(nouns: Any) -> None:
    noun = nouns.add_parser("cluster", help="make a cluster in the metadata store; list its bookies")
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    listing = verbs.add_parser("list-bookies", help="registered bookies, and those that have a cookie but are gone")
    init = verbs.add_parser("init", aliases=["format"], help="make a new, empty cluster; refuses one that exists")
    init.add_argument("--if-missing", action="store_true", help="an existing cluster is fine and left as it is")
    for verb, run in ((listing, run_list), (init, run_init)):
        verb.add_argument(
            "--metadata-service-uri", required=True, metavar="URI", help="zk+hierarchical://HOST:PORT/ledgers"
        )
        verb.add_argument("--json", action="store_true", help="JSON on stdout")
        verb.set_defaults(run=run)


def run_list(arguments: argparse.Namespace) -> int:
    from bookie.runtime import loop

    facts = loop.run(_list(arguments.metadata_service_uri))
    if arguments.json:
        print(json.dumps(facts))
        return 0
    for bookie in facts:
        print(f"{bookie['id']:40} {bookie['state']:10} {bookie['address'] or '-':24} {bookie['zone'] or '-'}")
    return 0


def run_init(arguments: argparse.Namespace) -> int:
    from bookie.runtime import loop

    instance_id = loop.run(_init(arguments.metadata_service_uri, if_missing=arguments.if_missing))
    print(json.dumps({"instanceId": instance_id}) if arguments.json else f"cluster instance id {instance_id}")
    return 0


async def _list(uri: str) -> list[dict[str, Any]]:
    from bookie import connect

    async with connect.connect(uri) as client:
        registered = await client.admin.bookies()
        known = await client.admin.known_bookies()
    alive = {record.bookie_id for record in registered}
    facts: list[dict[str, Any]] = [
        {
            "id": record.bookie_id,
            "state": "read-only" if record.is_read_only else "writable",
            "address": None if record.address is None else str(record.address),
            "zone": record.zone,
        }
        for record in registered
    ]
    facts += [{"id": name, "state": "gone", "address": None, "zone": ""} for name in known if name not in alive]
    return facts


async def _init(uri: str, *, if_missing: bool) -> str:
    from bookie.client import cluster
    from bookie.runtime.world import open_world

    async with open_world() as world:
        store = await world.metadata_stores.connect(uri)
        try:
            make = cluster.ensure_cluster if if_missing else cluster.format_cluster
            return await make(store, uri, world.entropy)
        finally:
            await store.close()
