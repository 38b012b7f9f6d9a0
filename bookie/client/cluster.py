"""Makes a cluster in the metadata store, and reads the cluster's own records there: instance id and layout.

As Java's `initnewcluster`: root, available, available/readonly and INSTANCEID in one transaction, then LAYOUT. Never: a
change to a cluster that exists. Rules: spec/metadata.md#M5, M6.
"""

from bookie.base import errors
from bookie.client.ledgers import LedgerStore
from bookie.metadata import paths
from bookie.metadata.paths import LayoutKind, MetadataUri
from bookie.ports.entropy import Entropy
from bookie.ports.metadata_store import CreateOp, MetadataStore, create_if_missing, find_children, find_data

_ATTEMPTS = 10  # after lost answers
_INSTANCE_ID_CHARS_MAX = 400  # an id is a UUID; people may write their own


async def format_cluster(store: MetadataStore, uri: str, entropy: Entropy) -> str:
    """Make a new cluster at `uri`; return its instance id. Raises BadInput when the root exists already."""
    parsed = paths.parse_uri(uri)
    made = _new_instance_id(entropy)
    parent = parsed.root.rsplit("/", 1)[0]
    if parent:
        await create_if_missing(store, parent, parents=True)
    ops = [
        CreateOp(parsed.root, b""),
        CreateOp(paths.available(parsed.root), b""),
        CreateOp(paths.readonly(parsed.root), b""),
        CreateOp(paths.instance_id(parsed.root), made.encode()),
    ]
    for _ in range(_ATTEMPTS):
        try:
            await store.transact(ops)
        except errors.OutcomeUnknown:
            continue  # if it happened, the next attempt says so
        except errors.NodeExists:
            await store.sync(parsed.root)
            if await find_data(store, paths.instance_id(parsed.root)) != made.encode():
                raise errors.BadInput(
                    f"{parsed.root} exists already in the metadata store: nothing was changed there; take another root"
                ) from None
        break
    else:
        raise errors.OutcomeUnknown(
            f"making a cluster at {parsed.root}: the metadata store gave no answer; see whether it exists, try again"
        )
    await open_layout(store, parsed, is_new=True)
    return made


async def find_instance_id(store: MetadataStore, root: str) -> str | None:
    """Return the id of the cluster at `root`; None where there is no record of one. Raises BadInput for one that cannot
    be read, MetadataError."""
    path = paths.instance_id(root)
    found = await find_data(store, path)
    if found is None:
        return None
    try:
        text = found.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or len(text) > _INSTANCE_ID_CHARS_MAX:
        raise errors.BadInput(
            f"{path} in the metadata store is not the id of a cluster: {found[:40]!r}; write the id there again that"
            " the bookies' cookies have (instanceId in current/VERSION of each directory)"
        )
    return text


async def ensure_cluster(store: MetadataStore, uri: str, entropy: Entropy) -> str:
    """Return the instance id of the cluster at `uri`; make the cluster if there is none. For development fleets, whose
    bookies may call this at the same time."""
    root = paths.parse_uri(uri).root
    for _ in range(3):
        found = await find_instance_id(store, root)
        if found is not None:
            await open_layout(store, paths.parse_uri(uri))
            return found
        try:
            return await format_cluster(store, uri, entropy)
        except errors.BadInput:
            continue  # another process made it just now, or the root exists without an instance id
    raise errors.BadInput(
        f"{root} exists in the metadata store but has no INSTANCEID, so it is no cluster: take another root"
    )


async def instance_id(store: MetadataStore, root: str) -> str:
    """Return the cluster's id; "" for a cluster from before instance ids. Raises NoCluster when there is nothing at
    `root`, BadInput for a record that cannot be read, MetadataError."""
    found = await find_instance_id(store, root)
    if found is None and await find_data(store, root) is None:
        raise _no_cluster(root)
    return found or ""


async def check_exists(store: MetadataStore, root: str) -> None:
    """Raise NoCluster when there is nothing at `root`, or what is there is no cluster's: for people, who mistype it. A
    bookie that finds its cluster emptied asks `instance_id`, is held, and waits."""
    if not paths.holds_cluster(await find_children(store, root)):
        raise _no_cluster(root)


async def open_layout(
    store: MetadataStore, uri: MetadataUri, *, is_new: bool = False, must_exist: bool = False
) -> LayoutKind:
    """Return the layout of this cluster's ledgers; record it if it is not recorded yet. Raises RefusedToStart when
    `uri` asks for another layout, or when there are ledgers but no record: in a wrong layout every ledger would look
    deleted, and bookies would drop its entries. `is_new`: we made this cluster just now. `must_exist`: nothing is
    recorded where `check_exists` finds no cluster."""
    wanted = uri.kind or LayoutKind.HIERARCHICAL
    path = paths.layout(uri.root)
    for _ in range(_ATTEMPTS):
        found = await find_data(store, path)
        if found is not None:
            break
        if must_exist:
            await check_exists(store, uri.root)
        try:
            if not is_new and paths.holds_ledgers(await store.children(uri.root)):
                raise errors.RefusedToStart(
                    f"{path} is gone from the metadata store, and ledgers are there: restore that record (of another "
                    f"cluster of the same kind, or from a backup); {wanted.value} is no more than a guess"
                )
            await create_if_missing(store, path, paths.dump_layout(wanted))
        except errors.NodeMissing:
            raise _no_cluster(uri.root) from None
    else:
        raise errors.OutcomeUnknown(f"writing {path}: the metadata store gave no answer: look, then try again")
    kind = paths.load_layout(found)
    if uri.kind is not None and kind is not uri.kind:
        raise errors.RefusedToStart(
            f"the settings ask for ledger layout {uri.kind.value}, the cluster at {uri.root} has {kind.value}: "
            "correct the metadata service URI"
        )
    return kind


async def open_ledgers(store: MetadataStore, uri: MetadataUri, *, must_exist: bool = False) -> LedgerStore:
    """Return the ledgers of the cluster at `uri`, in the layout that the cluster has. `must_exist`: `open_layout`."""
    return LedgerStore(store, uri.root, await open_layout(store, uri, must_exist=must_exist))


def _no_cluster(root: str) -> errors.NoCluster:
    return errors.NoCluster(
        f"there is no cluster at {root} in the metadata store: are servers and root of the metadata service URI right?"
        " Only where there never was one: `bookie cluster init`"
    )


def _new_instance_id(entropy: Entropy) -> str:
    """Return a random UUID (version 4) as text, as Java makes it. By hand: only `entropy` may draw random numbers."""
    token = bytearray(entropy.token(16))
    token[6] = token[6] & 0x0F | 0x40
    token[8] = token[8] & 0x3F | 0x80
    text = token.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
