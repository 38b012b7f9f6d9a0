"""A disk of the test's own: a small file system on a loop device, which can be full, frozen or failing. Needs root."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SIZE_MB = 768


def why_not() -> str:
    """Return why no such disk can be had here; empty when it can."""
    missing = [tool for tool in ("mkfs.ext4", "e2fsck", "fsfreeze", "losetup") if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    free = subprocess.run(["losetup", "-f"], capture_output=True, text=True, check=False)
    return f"no loop devices: {free.stderr.strip()}" if free.returncode else ""


@dataclass(frozen=True, slots=True)
class LoopDisk:
    """`place` is where it is mounted."""

    image: Path
    place: Path

    def mount(self) -> None:
        _do("mount", "-o", "loop", str(self.image), str(self.place))

    def freeze(self) -> None:
        """Every write and sync waits until `thaw`."""
        _do("fsfreeze", "-f", str(self.place))

    def thaw(self) -> None:
        _do("fsfreeze", "-u", str(self.place))

    def fill(self) -> None:
        """Leave not one block."""
        for block in ("1M", "4k"):
            with contextlib.suppress(AssertionError):
                _do("dd", "if=/dev/zero", f"of={self.place}/ballast-{block}", f"bs={block}", "conv=fsync")

    def empty(self) -> None:
        for path in self.place.glob("ballast-*"):
            path.unlink()

    def fail(self) -> None:
        """As ext4 does when its device breaks: every write is refused from now on."""
        _do("mount", "-o", "remount,abort", str(self.place))

    def mend(self) -> None:
        """Needs that no process uses it."""
        _do("umount", str(self.place))
        # 1: errors were corrected, which is what the abort leaves behind.
        _do("e2fsck", "-p", "-f", str(self.image), good=(0, 1))
        self.mount()


@contextlib.contextmanager
def loop_disk(folder: Path, name: str) -> Iterator[LoopDisk]:
    """A disk mounted at `folder/name` until the body ends."""
    disk = LoopDisk(folder / f"{name}.img", folder / name)
    disk.place.mkdir(parents=True)
    with disk.image.open("wb") as file:
        file.truncate(SIZE_MB << 20)
    _do("mkfs.ext4", "-q", "-m", "0", "-F", str(disk.image))
    disk.mount()
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk.place)], check=False, capture_output=True)


def _do(*command: str, good: tuple[int, ...] = (0,)) -> None:
    told = subprocess.run(list(command), capture_output=True, text=True, check=False, timeout=120)
    assert told.returncode in good, f"{' '.join(command)}: {told.stderr.strip()}"
