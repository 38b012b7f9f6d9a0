"""Snapshots of simulated volumes: a backup that somebody restores, or the disk of another machine."""

import copy

from bookie.sim.disk_image import Image, VolumeImage


def snapshot(image: Image, path: str) -> VolumeImage:
    """A copy of the volume's durable and pending state."""
    return copy.deepcopy(image.volumes[path])


def put_back(image: Image, volume: VolumeImage) -> None:
    """Mount a copy of a snapshot at its own path."""
    image.volumes[volume.path] = copy.deepcopy(volume)
