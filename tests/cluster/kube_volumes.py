"""Volumes that can be proven mounted: loop devices with a file system of their own, inside a node.

A local PersistentVolume stands on each. Unmounted, its path in the node is an empty folder on the
node's own disk: what a pod then sees is "not mounted", which must never be taken for "emptied".
Everything made here belongs to a cluster's home and is released with it.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import kube_cache
import kube_engine
import kube_errors
import kube_home
import kube_shell

STORAGE_CLASS = "bookie-test-disk"
MOUNT_ROOT = "/var/bookie-volumes"
"""On the disk that a node keeps pods and images on, as a mount point of a real machine would be."""
LOOP_MAJOR = 7
"""Major device number of loop devices (Linux allocated devices)."""
_EXT4_IOC_SHUTDOWN, _NOTHING_IS_FLUSHED = 0x8004587D, 2
"""_IOR('X', 125, __u32) and EXT4_GOING_FLAGS_NOLOGFLUSH (linux, fs/ext4/ext4.h)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """A file system in the file `backing`, for pods on `node`, which may be mounted there or not."""

    name: str
    node: str
    size_bytes: int
    backing: Path

    @property
    def mount_point(self) -> str:
        """The path inside the node."""
        return f"{MOUNT_ROOT}/{self.name}"


def create(name: str, *, node: str, size_bytes: int = 256 << 20) -> Volume:
    """Make a volume with an empty ext4 on it and mount it in `node`.

    Raises ClusterError when one of that name is there, or the cluster is not of our making.
    """
    if kube_home.mode() is not kube_home.Mode.KIND:
        raise kube_errors.ClusterError("loop-device volumes need a cluster that this checkout made")
    home = kube_home.this()
    home.volumes.mkdir(parents=True, exist_ok=True)
    volume = Volume(name, node, size_bytes, home.volumes / f"{name}.img")
    if volume.backing.exists():
        raise kube_errors.ClusterError(f"there is a volume {name} already; destroy it first")
    # CRASH: the backing file comes first and goes last, so `release_all` finds every loop device.
    with volume.backing.open("wb") as file:
        file.truncate(size_bytes)
    kube_shell.run("/sbin/mkfs.ext4", "-q", "-m", "0", volume.backing)
    mount(volume)
    return volume


def mount(volume: Volume) -> None:
    """Mount `volume` at its mount point in its node; nothing happens when it is mounted."""
    if is_mounted(volume):
        return
    device = _attach(volume.backing)
    minor = device.removeprefix("/dev/loop")
    # A node sees the devices that were there when it was made: this one may have to be named.
    _in_node(volume.node, f"test -b {device} || mknod {device} b {LOOP_MAJOR} {minor}")
    _in_node(volume.node, f"mkdir -p {volume.mount_point} && mount {device} {volume.mount_point}")


def unmount(volume: Volume) -> None:
    """Take `volume` away from its mount point; pods that run keep it, new ones see an empty folder.

    Its content stays, and `mount` brings it back.
    """
    if is_mounted(volume):
        _in_node(volume.node, f"umount {volume.mount_point}")


def fail(volume: Volume) -> None:
    """Have each read and write of `volume` end in EIO until it is mounted anew: as of a disk that died."""
    process = kube_engine.docker("inspect", "--format", "{{.State.Pid}}", volume.node).strip()
    folder = os.open(f"/proc/{process}/root{volume.mount_point}", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(folder, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NOTHING_IS_FLUSHED))
    finally:
        os.close(folder)


def make_read_only(volume: Volume) -> None:
    """Have each write of `volume` end in EROFS until it is mounted anew, while what it has can be read: what the kernel
    makes of a file system in which it has found an error (ext4's errors=remount-ro, as in most distributions)."""
    _in_node(volume.node, f"mount -o remount,errors=remount-ro {volume.mount_point}")
    device = _attach(volume.backing).removeprefix("/dev/")
    Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1", encoding="utf-8")


def detach(volume: Volume) -> None:
    """Let go of the file `volume.backing`, which may then be copied or replaced. It must not be mounted."""
    _detach(volume.backing)


def wipe(volume: Volume) -> None:
    """Remove every file on `volume`, which must be mounted: an emptied disk, not an absent one."""
    if not is_mounted(volume):
        raise kube_errors.ClusterError(f"volume {volume.name} is not mounted: nothing to wipe")
    _in_node(
        volume.node,
        f"find {volume.mount_point} -mindepth 1 -maxdepth 1 ! -name lost+found -exec rm -rf {{}} +",
    )


def destroy(volume: Volume) -> None:
    """Unmount `volume` and remove it, content and all."""
    if is_mounted(volume):
        _in_node(volume.node, f"umount --lazy {volume.mount_point}")
    _detach(volume.backing)
    volume.backing.unlink(missing_ok=True)


def is_mounted(volume: Volume) -> bool:
    """Tell whether something is mounted at the mount point in the node."""
    return kube_shell.succeeds("docker", "exec", volume.node, "mountpoint", "-q", volume.mount_point)


def files(volume: Volume) -> Sequence[str]:
    """Return what lies under the mount point as a pod would see it, mounted or not; sorted."""
    listed = _in_node(volume.node, f"find {volume.mount_point} -mindepth 1 ! -path '*/lost+found*'")
    return sorted(listed.splitlines())


def manifest(volumes: Sequence[Volume], *, storage_class: str = STORAGE_CLASS) -> str:
    """Return a manifest with the storage class and one PersistentVolume per volume."""
    items = [_storage_class(storage_class), *(_persistent(one, storage_class) for one in volumes)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def release_all(home: kube_home.Home) -> None:
    """Release every loop device and backing file of the cluster at `home`, however it was left."""
    for backing in sorted(home.volumes.glob("*.img")):
        _detach(backing)
        backing.unlink()


def _storage_class(name: str) -> dict[str, object]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _persistent(volume: Volume, storage_class: str) -> dict[str, object]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [volume.node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume.name},
        "spec": {
            "capacity": {"storage": str(volume.size_bytes)},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "volumeMode": "Filesystem",
            "local": {"path": volume.mount_point},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def _attach(backing: Path) -> str:
    """Return the loop device of `backing`, attached when it is not."""
    with kube_cache.lock("loop-devices"):  # finding a free one and taking it are two steps
        attached = _devices(backing)
        if attached:
            return attached[0]
        return kube_shell.run("/sbin/losetup", "--find", "--show", backing).strip()


def _detach(backing: Path) -> None:
    for device in _devices(backing):
        kube_shell.run("/sbin/losetup", "--detach", device)


def _devices(backing: Path) -> list[str]:
    shown = kube_shell.lines("/sbin/losetup", "--associated", backing, "--output", "NAME", "--noheadings")
    return [line.strip() for line in shown]


def _in_node(node: str, command: str) -> str:
    return kube_engine.docker("exec", node, "sh", "-euc", command)
