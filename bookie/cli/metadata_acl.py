"""`bookie metadata acl`: show who owns the cluster's records in ZooKeeper, and give an old tree its owner.

Everybody may change a tree that was made without zkEnableSecurity, also later: a node gets its ACL when it is made.
`--fix` gives each node the ACL that it would be made with today by these settings; it reports each node that we may not
administer.
"""

import argparse
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from bookie.base import errors
from bookie.cli import output, where
from bookie.client import cluster
from bookie.ports.metadata_store import MetadataStore
from bookie.runtime.zookeeper import ZooKeeperStore

_COLUMNS = {"acl": "ACL", "nodes": "NODES", "first": "FIRST", "asMadeToday": "AS MADE TODAY"}
_DENIED = "(not ours to see)"


def add_parser(verbs: Any) -> None:
    verb = output.add_verb(
        verbs,
        "acl",
        "show who may read and change the cluster's records in ZooKeeper, and correct that with --fix",
        where.add_cluster,
        output.add_json,
        output.add_consent,
        run=run,
    )
    verb.add_argument("--fix", action="store_true", help="give each node the ACL that these settings give to new nodes")


async def run(arguments: argparse.Namespace) -> int:
    """Return 0 when every node has the ACL that it would get if it were made today, else 1."""
    if arguments.yes and not arguments.fix:
        raise errors.BadInput("--yes is for --fix: add that, or leave out --yes to look alone")
    async with where.store(arguments) as (connected, uri, _):
        store = with_acls(connected)
        with contextlib.suppress(errors.MetadataDenied):  # which is what this command is asked about
            await cluster.check_exists(store, uri.root)
        found = [each async for each in _walk(store, uri.root)]
        wrong = [path for path, acl, is_right in found if acl != _DENIED and not is_right]
        if arguments.fix and wrong:
            owner = ", ".join(store.names) if store.creates_owned else "everybody (zkEnableSecurity=false)"
            plan = [f"plan: give {len(wrong)} of {len(found)} nodes to {owner}"]
            if output.consents(arguments, plan, is_all=False):
                for path in wrong:
                    await _take(store, path)
                found = [each async for each in _walk(store, uri.root)]
    output.rows(arguments, _summary(found), _COLUMNS)
    return 0 if all(is_right for _, _, is_right in found) else 1


def with_acls(store: MetadataStore) -> ZooKeeperStore:
    """Return `store`, which must be ZooKeeper's. Raises BadInput."""
    if not isinstance(store, ZooKeeperStore):
        raise errors.BadInput("the URI names another metadata store than ZooKeeper: it has no ACLs to show or to fix")
    return store


async def _walk(store: ZooKeeperStore, path: str) -> AsyncIterator[tuple[str, str, bool]]:
    """Yield (path, its ACL, whether the node would get this ACL if it were made now) for all nodes, parents first."""
    try:
        acl = await store.acl(path)
        names = await store.children(path)
    except errors.NodeMissing:
        return
    except errors.MetadataDenied:
        yield path, _DENIED, False
        return
    yield path, "; ".join(acl), store.is_as_made(path, acl)
    for name in names:
        async for each in _walk(store, f"{path}/{name}"):
            yield each


async def _take(store: ZooKeeperStore, path: str) -> None:
    try:
        await store.take(path)
    except errors.NodeMissing:
        return


def _summary(found: list[tuple[str, str, bool]]) -> list[dict[str, Any]]:
    rows: dict[tuple[str, bool], dict[str, Any]] = {}
    for path, acl, is_right in found:
        row = rows.setdefault((acl, is_right), {"acl": acl, "nodes": 0, "first": path, "asMadeToday": is_right})
        row["nodes"] += 1
    return list(rows.values())
