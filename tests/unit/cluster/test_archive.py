"""Image archives as they are sent to nodes."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import kube_archive


def saved_image(path: Path, layers: list[bytes]) -> list[str]:
    """Write an archive as `docker save` does and return the digests of its layers."""
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    members = {f"layer{index}/layer.tar": layer for index, layer in enumerate(layers)}
    members["config.json"] = json.dumps({"rootfs": {"diff_ids": digests}}).encode()
    entry = {"Config": "config.json", "RepoTags": ["bookie:dev"], "Layers": list(members)[: len(layers)]}
    members["manifest.json"] = json.dumps([entry]).encode()
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return digests


def sent(path: Path, *, held: frozenset[str]) -> dict[str, bytes]:
    """Return the members of the layout written for `path`."""
    target = io.BytesIO()
    kube_archive.write_missing(path, target, reference="docker.io/library/bookie:dev", held=held)
    target.seek(0)
    with tarfile.open(fileobj=target) as layout:
        return {member.name: layout.extractfile(member).read() for member in layout}  # type: ignore[union-attr]


def test_a_node_is_sent_only_the_layers_that_it_does_not_hold(tmp_path: Path) -> None:
    base, sources = saved_image(tmp_path / "image.tar", [b"base", b"sources"])

    members = sent(tmp_path / "image.tar", held=frozenset([base]))

    assert kube_archive.blob_path(base) not in members
    assert members[kube_archive.blob_path(sources)] == b"sources"


def test_the_layout_names_every_layer_even_those_left_out(tmp_path: Path) -> None:
    digests = saved_image(tmp_path / "image.tar", [b"base", b"sources"])

    members = sent(tmp_path / "image.tar", held=frozenset(digests))

    (described,) = json.loads(members["index.json"])["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == "docker.io/library/bookie:dev"
    manifest = json.loads(members[kube_archive.blob_path(described["digest"])])
    assert [layer["digest"] for layer in manifest["layers"]] == digests
    assert [layer["size"] for layer in manifest["layers"]] == [len(b"base"), len(b"sources")]


def test_every_blob_lies_under_the_digest_of_its_content(tmp_path: Path) -> None:
    saved_image(tmp_path / "image.tar", [b"base"])

    blobs = {name: data for name, data in sent(tmp_path / "image.tar", held=frozenset()).items() if "blobs" in name}

    assert len(blobs) == 3  # configuration, manifest, layer
    assert all(name == kube_archive.blob_path(kube_archive.digest_of(data)) for name, data in blobs.items())
