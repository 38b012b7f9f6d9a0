"""Image archives: what `docker save` writes, turned into an OCI layout without what a node has.

Layers stay as they are, uncompressed, so a layer's digest is the one its configuration names
(OCI image specification, "rootfs.diff_ids"). Nothing here may talk to an engine or a node.
"""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import tarfile
from collections.abc import Set
from pathlib import Path
from typing import IO, cast

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


def write_missing(archive: Path, target: IO[bytes], *, reference: str, held: Set[str]) -> None:
    """Write the one image in `archive` to `target` as an OCI layout named `reference`.

    Layers whose digest ("sha256:…") is in `held` are left out: the reader has them.
    """
    with tarfile.open(archive) as saved, tarfile.open(fileobj=target, mode="w|") as layout:
        (entry,) = json.loads(_read(saved, "manifest.json"))
        config = _read(saved, entry["Config"])
        digests = json.loads(config)["rootfs"]["diff_ids"]
        assert len(digests) == len(entry["Layers"]), "every layer has its digest"
        members = {digest: _resolved(saved, name) for digest, name in zip(digests, entry["Layers"], strict=True)}
        sizes = {digest: member.size for digest, member in members.items()}
        manifest = manifest_json(config, digests, sizes)
        _add(layout, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(layout, "index.json", index_json(manifest, reference))
        _add(layout, blob_path(digest_of(config)), config)
        _add(layout, blob_path(digest_of(manifest)), manifest)
        for digest, member in members.items():
            if digest not in held:
                info = tarfile.TarInfo(blob_path(digest))
                info.size = member.size
                layout.addfile(info, saved.extractfile(member))


def manifest_json(config: bytes, digests: list[str], sizes: dict[str, int]) -> bytes:
    """Return the manifest of an image with `config` and the layers `digests`, bottom first."""
    layers = [{"mediaType": LAYER_TYPE, "digest": name, "size": sizes[name]} for name in digests]
    described = {"mediaType": CONFIG_TYPE, "digest": digest_of(config), "size": len(config)}
    return json.dumps({"schemaVersion": 2, "config": described, "layers": layers}).encode()


def index_json(manifest: bytes, reference: str) -> bytes:
    """Return the index that names `manifest` as `reference` (containerd's annotation for it)."""
    described = {
        "mediaType": MANIFEST_TYPE,
        "digest": digest_of(manifest),
        "size": len(manifest),
        "annotations": {"io.containerd.image.name": reference},
    }
    return json.dumps({"schemaVersion": 2, "manifests": [described]}).encode()


def digest_of(content: bytes) -> str:
    """Return the digest of `content` as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def blob_path(digest: str) -> str:
    """Return where an OCI layout keeps the blob `digest`."""
    return f"blobs/{digest.replace(':', '/')}"


def _resolved(saved: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    """Return the member `name`, followed where docker saved a layer twice as a link."""
    member = saved.getmember(name)
    if member.issym():
        return saved.getmember(posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname)))
    return member


def _read(saved: tarfile.TarFile, name: str) -> bytes:
    return cast(io.BufferedReader, saved.extractfile(name)).read()


def _add(layout: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    layout.addfile(info, io.BytesIO(content))
