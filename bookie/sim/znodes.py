"""The versioned tree behind the simulated metadata store: pure, synchronous, one commit at a time.

Semantics are ZooKeeper's (versions from 0, ephemerals have no children, sequential names count per parent). Knows
nothing of networks or time; `bookie.sim.metadata_store` adds sessions, latency and lost answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.ports.metadata_store import ANY_VERSION, CheckOp, CreateOp, DeleteOp, Op, PutOp, Stored


@dataclass(slots=True, eq=False)
class Znode:
    """One node. `children` keeps insertion order; names are sorted when listed."""

    data: bytes
    created_ms: int = 0
    modified_ms: int = 0
    owner: int = 0
    version: int = 0
    children: dict[str, None] = field(default_factory=dict)
    next_sequence: int = 0
    created_zxid: int = 0
    modified_zxid: int = 0


class Tree:
    """All nodes by path. `on_change(path)` is called for every path whose data, existence or children changed."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"")}
        self.commits = 0
        self._on_change = on_change

    def get(self, path: str) -> Stored:
        node = self._node(path)
        times = node.created_ms, node.owner, node.modified_ms
        return Stored(node.data, node.version, *times, node.created_zxid, node.modified_zxid)

    def children(self, path: str) -> list[str]:
        return sorted(self._node(path).children)

    def create(self, path: str, data: bytes, *, now_ms: int, owner: int, sequential: bool, parents: bool) -> str:
        """Create a node and return its path. Raises NodeExists, NodeMissing."""
        assert path.startswith("/"), f"bad path {path!r}"
        assert sequential or not path.endswith("/"), f"bad path {path!r}"
        parent_path, name = _split(path)
        if parents and parent_path not in self.nodes:
            self.create(parent_path, b"", now_ms=now_ms, owner=0, sequential=False, parents=True)
        parent = self._node(parent_path)
        if parent.owner:
            raise errors.MetadataError(f"{parent_path} is ephemeral and cannot have children")
        if sequential:
            name = f"{name}{parent.next_sequence:010d}"
            path = f"{parent_path.rstrip('/')}/{name}"
        if path in self.nodes:
            raise errors.NodeExists(f"{path} exists already")
        parent.next_sequence += 1
        zxid = self.commits + 1
        self.nodes[path] = Znode(bytes(data), now_ms, now_ms, owner, created_zxid=zxid, modified_zxid=zxid)
        parent.children[name] = None
        self._committed(path, parent_path)
        return path

    def put(self, path: str, data: bytes, version: int, *, now_ms: int) -> int:
        node = self._checked(path, version)
        node.data = bytes(data)
        node.version += 1
        node.modified_ms = now_ms
        node.modified_zxid = self.commits + 1
        self._committed(path)
        return node.version

    def delete(self, path: str, version: int) -> None:
        node = self._checked(path, version)
        if node.children:
            raise errors.MetadataError(f"{path} has children")
        parent_path, name = _split(path)
        del self.nodes[path]
        del self.nodes[parent_path].children[name]
        self._committed(path, parent_path)

    def transact(self, ops: Sequence[Op], *, now_ms: int, owner: int) -> None:
        """Apply all of `ops`, or none: raises the error of the first one that fails, and then nothing has changed."""
        undo: list[Callable[[], None]] = []
        try:
            for op in ops:
                undo.append(self._apply(op, now_ms, owner))
        except errors.MetadataError:
            for back in reversed(undo):
                back()
            raise

    def _apply(self, op: Op, now_ms: int, owner: int) -> Callable[[], None]:
        """Apply one operation; return the function that undoes it."""
        match op:
            case CheckOp(path, version):
                self._checked(path, version)
                return lambda: None
            case CreateOp(path, data, ephemeral):
                self.create(path, data, now_ms=now_ms, owner=owner if ephemeral else 0, sequential=False, parents=False)
                return lambda: self.delete(path, ANY_VERSION)
            case PutOp(path, data, version):
                node = self._checked(path, version)
                before = (node.data, node.version, node.modified_ms, node.modified_zxid)
                self.put(path, data, version, now_ms=now_ms)

                def restore() -> None:
                    node.data, node.version, node.modified_ms, node.modified_zxid = before

                return restore
            case DeleteOp(path, version):
                removed = self._checked(path, version)
                self.delete(path, version)

                def put_back() -> None:
                    parent_path, name = _split(path)
                    self.nodes[path] = removed
                    self.nodes[parent_path].children[name] = None

                return put_back

    def delete_owned_by(self, owner: int) -> None:
        """Remove the ephemeral nodes of a session that ended."""
        for path in [path for path, node in self.nodes.items() if node.owner == owner]:
            self.delete(path, ANY_VERSION)

    def _node(self, path: str) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            raise errors.NodeMissing(f"{path} does not exist")
        return node

    def _checked(self, path: str, version: int) -> Znode:
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise errors.VersionConflict(f"{path} is at version {node.version}, not {version}")
        return node

    def _committed(self, *paths: str) -> None:
        self.commits += 1
        for path in paths:
            self._on_change(path)


def _split(path: str) -> tuple[str, str]:
    head, _, name = path.rpartition("/")
    return head or "/", name
