"""A versioned tree with watches and sessions: ZooKeeper in the real world.

Promised: per path, linearizable compare-and-set; ephemeral nodes die with the session. Not promised: an answer
(`OutcomeUnknown` means that the change may have happened); that every change is reported (watches coalesce).
"""

import contextlib
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.ports.tls import TlsOptions

ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class MetadataSecurity:
    """How we use the metadata store: our user, TLS, and the access rights of the nodes that we make.

    `sasl_user`, `sasl_password`: SASL DIGEST-MD5, as Java's JAAS section "Client". `digest`: USER:PASSWORD of
    ZooKeeper's own scheme "digest"; ZooKeeper checks it only against ACLs. `creator_acl`: only our user may read or
    change the nodes that we make (Java's zkEnableSecurity, ZkUtils.getACLs: CREATOR_ALL_ACL). `tls` None: plain bytes.
    """

    sasl_user: str = ""
    sasl_password: Secret = Secret("")
    digest: Secret = Secret("")
    creator_acl: bool = False
    tls: TlsOptions | None = None

    def __post_init__(self) -> None:
        if bool(self.sasl_user) != bool(self.sasl_password):
            raise errors.BadInput("metadata store: a SASL user and his password: give both or neither")
        if self.digest and not self.digest.reveal().partition(":")[2]:
            raise errors.BadInput("metadata store: a digest credential is USER:PASSWORD")
        if self.creator_acl and not self.is_somebody:
            raise errors.BadInput(
                "zkEnableSecurity=true without a user: nobody could own what is made. Give saslJaasFile a section"
                " `Client` with username and password, or set zkDigestFile"
            )

    @property
    def is_somebody(self) -> bool:
        """Return True when we name a user to the store."""
        return bool(self.sasl_user or self.digest)


@dataclass(frozen=True, slots=True)
class Stored:
    """One node. `version` counts changes of the data from 0. `owner` is a session id, 0 when persistent.

    Times are the store's own, in milliseconds since 1970; `modified_ms` is that of the last change of the data.
    `created_zxid`, `modified_zxid`: the store's numbers of the changes that made the node and last changed its data.
    They only grow, whatever its clocks say; the first one tells a node from another that was made at its path.
    """

    data: bytes
    version: int
    created_ms: int = 0
    owner: int = 0
    modified_ms: int = 0
    created_zxid: int = 0
    modified_zxid: int = 0


@dataclass(frozen=True, slots=True)
class CreateOp:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class PutOp:
    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class DeleteOp:
    path: str
    version: int


@dataclass(frozen=True, slots=True)
class CheckOp:
    path: str
    version: int


Op = CreateOp | PutOp | DeleteOp | CheckOp


def absent(path: str) -> tuple[Op, Op]:
    """Return operations by which a transaction fails with NodeExists if there is a node at `path`.

    There is no other way to ask for absence: what is made here is removed in the same transaction.
    """
    return CreateOp(path, b""), DeleteOp(path, ANY_VERSION)


class Session(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # no answer now; ephemeral nodes still stand
    LOST = "lost"  # ephemeral nodes are gone; a new session begins by itself


class MetadataStore(Protocol):
    """One session. Every call has a deadline of its own (the session time-out) and raises MetadataError past it."""

    @property
    def session_id(self) -> int: ...

    @property
    def session_timeout_ms(self) -> int:
        """Return the time-out that the servers granted, which may be less than was asked for."""
        ...

    async def get(self, path: str) -> Stored:
        """Return the node at `path`. Raises NodeMissing."""
        ...

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """Return the path made (with its suffix of ten digits if `sequential`).

        Raises NodeExists, NodeMissing (no parent and not `parents`), OutcomeUnknown.
        """
        ...

    async def put(self, path: str, data: bytes, version: int) -> int:
        """Write if the version matches; return the new version. Raises VersionConflict, NodeMissing, OutcomeUnknown."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node. Raises VersionConflict, NodeMissing, OutcomeUnknown, MetadataError (has children)."""
        ...

    async def children(self, path: str) -> list[str]:
        """Return the names below `path`, sorted. Raises NodeMissing."""
        ...

    async def sync(self, path: str) -> None:
        """Wait until reads see every change committed before this call."""
        ...

    async def transact(self, ops: Sequence[Op]) -> None:
        """Apply all operations or none. Raises the first failed operation's error, OutcomeUnknown."""
        ...

    def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call `on_change` (on the loop) after the node's data, existence or children may have changed, and after
        a session was lost. Changes coalesce: read again. Returns a function that ends the watch."""
        ...

    def on_session(self, on_state: Callable[[Session], None]) -> Callable[[], None]:
        """Call `on_state` at each change of the session's state. Returns a function that ends it."""
        ...

    async def close(self) -> None:
        """End the session; its ephemeral nodes vanish at once."""
        ...


async def find(store: MetadataStore, path: str) -> Stored | None:
    """Return the node at `path`; None when there is none. Raises MetadataError when the store does not say."""
    try:
        return await store.get(path)
    except errors.NodeMissing:
        return None


async def find_data(store: MetadataStore, path: str) -> bytes | None:
    """Return the data of the node at `path`; None when there is no node."""
    found = await find(store, path)
    return None if found is None else found.data


async def find_children(store: MetadataStore, path: str) -> list[str]:
    """Return the names below `path`; none when there is no such node.
    Raises MetadataError when the store does not say."""
    try:
        return await store.children(path)
    except errors.NodeMissing:
        return []


async def create_if_missing(store: MetadataStore, path: str, data: bytes = b"", *, parents: bool = False) -> None:
    """Create the node at `path` if there is none. Whether it happened may be unknown: the caller looks again."""
    with contextlib.suppress(errors.NodeExists, errors.OutcomeUnknown):
        await store.create(path, data, parents=parents)


class MetadataStores(Protocol):
    async def connect(self, uri: str, *, session_timeout_ms: int = 30_000) -> MetadataStore:
        """Open a session for `zk+hierarchical://host:port[;host:port]/root`. Paths of the store are absolute (the
        root is not stripped). Raises BadInput for the URI, MetadataError naming the address when unreachable."""
        ...
