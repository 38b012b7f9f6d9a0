"""Lists bookies as the metadata store shows them: registered, or gone with their cookie left."""

from typing import Any

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.client.repair import forgetting
from bookie.metadata import paths, registration
from bookie.ports.metadata_store import MetadataStore, find, find_children
from bookie.ports.network import Address

STATES = WRITABLE, READ_ONLY, GONE = "writable", "read-only", "gone"


async def list_bookies(store: MetadataStore, root: str) -> list[dict[str, Any]]:
    """Return the registered bookies by id, then those that only have a cookie."""
    found: dict[str, dict[str, Any]] = {}
    for directory, state in ((paths.available(root), WRITABLE), (paths.readonly(root), READ_ONLY)):
        for name in await find_children(store, directory):
            if name != "readonly":
                found[name] = await _facts(store, f"{directory}/{name}", name, state)
    alive = sorted(found.values(), key=lambda bookie: str(bookie["id"]))
    gone = [name for name in await find_children(store, paths.cookies(root)) if name not in found]
    return alive + [{"id": name, "state": GONE, "address": None, "zone": "", "endpoints": []} for name in gone]


async def is_registered(store: MetadataStore, root: str, bookie_id: BookieId) -> bool:
    """True while a process of this bookie holds its registration, writable or read-only."""
    found = [await find(store, f"{parent(root)}/{bookie_id}") for parent in (paths.available, paths.readonly)]
    return found != [None, None]


async def check_known(
    store: MetadataStore, root: str, bookie_id: BookieId, named_by: str = "no ledger names it"
) -> None:
    """Raise BookieUnknown for an id that the cluster does not know. `named_by`: what the caller has seen of ledgers
    that name it."""
    if bookie_id not in [bookie["id"] for bookie in await list_bookies(store, root)]:
        raise forgetting.unknown(bookie_id, named_by)


async def _facts(store: MetadataStore, path: str, name: str, state: str) -> dict[str, Any]:
    try:
        info = registration.load_service_info(BookieId(name), (await store.get(path)).data)
    except (errors.NodeMissing, *errors.UNREADABLE):  # gone meanwhile, or a record nobody can read
        info = registration.BookieServiceInfo()
    endpoint = info.bookie_endpoint
    return {
        "id": name,
        "state": state,
        "address": None if endpoint is None else str(Address(endpoint.host, endpoint.port)),
        "zone": info.property("zone"),
        "endpoints": [f"{each.protocol}://{Address(each.host, each.port)}" for each in info.endpoints],
    }
