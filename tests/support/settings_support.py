"""Settings as a test wants them: from a text, flags and an environment, on a machine that it describes."""

from __future__ import annotations

import argparse
from pathlib import Path

from bookie.base.errors import BadInput
from bookie.cli import server_options, settings
from bookie.cli.derive import HostLookup
from bookie.cli.server_options import Effective
from bookie.settings.values import Settings

NEEDED = (
    "journalDirectories=/j\nledgerDirectories=/a,/b\nindexDirectories=/x,/y\n"
    "metadataServiceUri=zk+hierarchical://zk:2181/ledgers\n"
)
ADDRESSES = {"": "10.0.0.9", "eth1": "192.0.2.7"}


def _address_of(interface: str) -> str:
    if interface not in ADDRESSES:
        raise BadInput(f"listeningInterface {interface!r} has no address")
    return ADDRESSES[interface]


LOOKUP = HostLookup(_address_of, {"10.0.0.9": "bk-9.example.net"}.get)  # type: ignore[arg-type]


def load(
    text: str = "", *flags: str, folder: Path | None = None, environment: dict[str, str] | None = None
) -> Settings:
    """What `bookie serve` reads. `text` becomes the file bk.conf in `folder`."""
    parser = argparse.ArgumentParser()
    settings.add_flags(parser)
    words = list(flags)
    if folder is not None:
        (folder / "bk.conf").write_text(text)
        words += ["--config", str(folder / "bk.conf")]
    return settings.load(parser.parse_args(words), environment or {})


def build(loaded: Settings, lookup: HostLookup = LOOKUP, *, user: str = "bookie") -> Effective:
    """What `bookie serve` runs on."""
    return server_options.build(loaded, lookup, user=user)
