"""An API server that knows Secrets alone (and ConfigMaps, in the same way), and a place for certificates."""

import base64

from bookie.rpc.client import AdminCredentials
from bookie_operator.gateways.kube import KubeError, Manifest


class Secrets:
    """An API server that knows Secrets, and which field manager has set which key."""

    def __init__(self) -> None:
        self.data: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}  # (namespace, name) -> key -> (manager, text)
        self.labels: dict[tuple[str, str], dict[str, str]] = {}
        self.version = 0
        self.writes: list[tuple[str, str]] = []
        self.owners: dict[str, bool] = {}
        self.wallet: dict[str, AdminCredentials] = {}
        self.is_raced = False  # somebody else writes after each of our reads

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        assert kind in ("Secret", "ConfigMap")
        found = self.data.get((namespace, name))
        if found is None:
            return None
        metadata: Manifest = {"name": name, "namespace": namespace, "resourceVersion": str(self.version)}
        metadata |= {"labels": dict(self.labels.get((namespace, name), {}))}
        self.version += self.is_raced
        return {"kind": kind, "metadata": metadata, "data": {key: text for key, (_, text) in found.items()}}

    async def list(self, kind: str, namespace: str, selector: str = "") -> list[Manifest]:
        raise AssertionError

    async def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        raise AssertionError

    async def replace_status(self, manifest: Manifest, *, manager: str) -> Manifest:
        raise AssertionError

    async def create(self, manifest: Manifest) -> Manifest:
        raise AssertionError

    async def merge(self, manifest: Manifest) -> Manifest:
        raise AssertionError

    async def replace(self, manifest: Manifest) -> Manifest:
        raise AssertionError

    async def store(self, manifest: Manifest, live: Manifest | None, manager: str) -> None:
        metadata = manifest["metadata"]
        where = (metadata["namespace"], metadata["name"])
        if (live is not None) != (where in self.data):
            raise KubeError("create" if live is None else "apply", 409, "exists" if live is None else "gone")
        if metadata.get("resourceVersion", str(self.version)) != str(self.version):
            raise KubeError("apply", 409, "changed")
        assert len(manager) <= 128
        self.version += 1
        self.writes.append(where)
        kept = {key: entry for key, entry in self.data.get(where, {}).items() if entry[0] != manager}
        self.labels[where] = metadata["labels"]
        self.data[where] = kept | {key: (manager, text) for key, text in manifest["data"].items()}
        for owner in metadata.get("ownerReferences") or ():
            self.owners[owner["uid"]] = owner["controller"]

    def use(self, uid: str, identity: AdminCredentials) -> None:
        self.wallet[uid] = identity

    def identity(self, uid: str) -> AdminCredentials | None:
        return self.wallet.get(uid)

    def text(self, where: tuple[str, str], key: str) -> bytes:
        return base64.b64decode(self.data[where][key][1])
