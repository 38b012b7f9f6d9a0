"""Which cluster, which directories, which bookie a command is about: by flag, settings file or environment."""

import argparse
import contextlib
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from bookie.base import errors

if TYPE_CHECKING:
    from bookie.client import Client
    from bookie.metadata.paths import MetadataUri
    from bookie.ports import World
    from bookie.ports.metadata_store import MetadataStore

URI_VARIABLE = "BOOKIE_METADATA_SERVICE_URI"
DEFAULT_ADMIN = "127.0.0.1:3182"
# A person waits for the answer: no longer than Java's shell does (zkTimeout).
SESSION_MS = 10_000


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Flags that name a cluster."""
    parser.add_argument("--metadata-service-uri", metavar="URI", help="zk+hierarchical://HOST:PORT/ledgers")
    add_config(parser)


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="a bookie's settings file, to take this from")


def add_admin(parser: argparse.ArgumentParser) -> None:
    """Flags that name a running bookie."""
    parser.add_argument("--admin", metavar="HOST:PORT", help=f"admin port of the bookie ({DEFAULT_ADMIN})")
    add_config(parser)


def uri_of(arguments: argparse.Namespace) -> str:
    """The cluster's metadata service URI. Raises BadInput that says how to name one."""
    if arguments.metadata_service_uri:
        return str(arguments.metadata_service_uri)
    if arguments.config:
        from bookie.cli import server_options, settings

        uri = server_options.complete_uri(settings.load(arguments)).text("metadataServiceUri")
        if uri:
            return uri
        raise errors.BadInput(f"{arguments.config} names no cluster: neither metadataServiceUri nor zkServers is there")
    if os.environ.get(URI_VARIABLE):
        return os.environ[URI_VARIABLE]
    raise errors.BadInput(
        f"which cluster? Say --metadata-service-uri zk+hierarchical://HOST:PORT/ledgers, or --config FILE, or set"
        f" {URI_VARIABLE}"
    )


def admin_of(arguments: argparse.Namespace) -> str:
    """Address of a bookie's admin port."""
    if arguments.admin:
        return str(arguments.admin)
    if arguments.config:
        from bookie.cli import settings

        loaded = settings.load(arguments)
        host = loaded.text("listeningAddress") or loaded.text("advertisedAddress")
        return f"{'127.0.0.1' if host in ('', '0.0.0.0') else host}:{loaded.number('adminPort')}"
    return DEFAULT_ADMIN


@contextlib.asynccontextmanager
async def client(arguments: argparse.Namespace) -> "AsyncIterator[Client]":
    """A client of the cluster that is meant; it encrypts and proves who it is as a bookie with these settings does."""
    from bookie import connect
    from bookie.cli import security_settings, settings

    options = security_settings.client_options(settings.load(arguments))
    async with connect.connect(uri_of(arguments), session_timeout_ms=SESSION_MS, **options) as connected:
        yield connected


@contextlib.asynccontextmanager
async def store(
    arguments: argparse.Namespace,
) -> "AsyncIterator[tuple[MetadataStore, MetadataUri, World]]":
    """The metadata store of the cluster that is meant, where its root is, and the world it is reached in."""
    from bookie.metadata import paths
    from bookie.runtime.world import open_world

    uri = uri_of(arguments)
    parsed = paths.parse_uri(uri)
    async with open_world() as world:
        connected = await world.metadata_stores.connect(uri, session_timeout_ms=SESSION_MS)
        try:
            yield connected, parsed, world
        finally:
            await connected.close()
