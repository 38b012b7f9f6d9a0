"""Finds the cluster, the directories and the bookie that a command is about: by flag, settings file or environment."""

import argparse
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from bookie.base import errors
from bookie.cli import output, security_settings, settings
from bookie.metadata import paths
from bookie.metadata.paths import MetadataUri
from bookie.ports import World
from bookie.ports.metadata_store import MetadataStore
from bookie.ports.network import Address
from bookie.ports.tls import TlsOptions
from bookie.runtime import metadata_access
from bookie.settings.table import DIRECTORIES

if TYPE_CHECKING:
    from bookie.client import Client
    from bookie.rpc.client import AdminClient

URI_VARIABLE = "BOOKIE_METADATA_SERVICE_URI"
# What the operator gives its pods; and what a bookie chooses itself when nothing is said (`derive.unasked_ports`).
DEFAULT_ADMINS = ("127.0.0.1:3182", "127.0.0.1:13181")
# The bookie's own variable for adminSocket: in its container these commands find it without being told.
SOCKET_VARIABLE = "BOOKIE_ADMIN_SOCKET"
# A person waits for the answer: no longer than Java's shell does (zkTimeout).
SESSION_MS = 10_000


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name a cluster."""
    parser.add_argument(
        "--metadata-service-uri", metavar="URI", help="the cluster: zk+hierarchical://HOST:PORT/ledgers"
    )
    add_config(parser)


def add_config(parser: argparse.ArgumentParser) -> None:
    settings.add_config(parser, "take what is not given (address, TLS, passwords) from a bookie's settings file")


def add_admin(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name a running bookie."""
    parser.add_argument(
        "--admin", metavar="HOST:PORT", help=f"the bookie's admin port ({', or '.join(DEFAULT_ADMINS)}), or unix:PATH"
    )
    add_config(parser)


def uri_of(arguments: argparse.Namespace) -> str:
    """Return the cluster's metadata service URI. Raises BadInput that says how to name one."""
    if arguments.metadata_service_uri:
        return str(arguments.metadata_service_uri)
    if arguments.config:
        from bookie.cli import server_options

        uri = server_options.complete_uri(settings.load(arguments)).text("metadataServiceUri")
        of_file = server_options.complete_uri(settings.load(arguments, {})).text("metadataServiceUri")
        if of_file and not paths.is_same_cluster(uri, of_file):
            raise errors.BadInput(
                f"{URI_VARIABLE} names the cluster {uri}, and {arguments.config} names {of_file}: say which is meant by"
                " --metadata-service-uri"
            )
        if uri:
            return uri
        raise errors.BadInput(f"{arguments.config} names no cluster: neither metadataServiceUri nor zkServers is there")
    if os.environ.get(URI_VARIABLE):
        return os.environ[URI_VARIABLE]
    raise errors.BadInput(
        f"no cluster is named: add --metadata-service-uri zk+hierarchical://HOST:PORT/ledgers, or --config FILE, or set"
        f" {URI_VARIABLE}"
    )


@contextlib.contextmanager
def admin(arguments: argparse.Namespace) -> "Iterator[AdminClient]":
    """Return a client of the bookie's admin port. Raises BadInput when another bookie answers there."""
    from bookie.cli import admin_access
    from bookie.rpc import calls
    from bookie.rpc.client import AdminRefused, CallFailed

    address, bookie_id = _admin_of(arguments)
    with admin_access.client(address) as bookie:
        try:
            if bookie_id and (found := bookie.ask(calls.storage_report(fresh=True)).bookie_id) != bookie_id:
                raise errors.BadInput(
                    f"{arguments.config} sets no adminPort, and the bookie at {address} is {found}, not"
                    f" {bookie_id}: add --admin HOST:PORT; the bookie's log tells the port (adminPort is not set ...)"
                )
            yield bookie
        except AdminRefused as error:
            raise errors.BadInput(f"{error}{admin_access.hint(error.code)}") from None
        except CallFailed:
            raise  # it runs, and says why not
        except errors.BookieUnavailable as error:
            raise errors.BookieUnavailable(f"{error}; {admin_access.unreached(address)}") from None


def _admin_of(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the address of an admin port, and the bookie that must answer there; "" when the person named the port."""
    if arguments.admin:
        return str(arguments.admin), ""
    if arguments.config:
        from bookie.cli import server_options

        loaded, _ = server_options.complete(settings.load(arguments))
        if loaded.text("adminSocket"):
            return f"unix:{loaded.text('adminSocket')}", ""
        host = loaded.text("listeningAddress") or loaded.text("advertisedAddress")
        address = Address("127.0.0.1" if host in ("", "0.0.0.0", "::") else host, loaded.number("adminPort"))
        return str(address), loaded.text("bookieId") if loaded.values["adminPort"].is_default else ""
    if os.environ.get(SOCKET_VARIABLE):
        return f"unix:{os.environ[SOCKET_VARIABLE]}", ""
    if found := next((address for address in DEFAULT_ADMINS if _answers(address)), ""):
        return found, ""
    raise errors.BookieUnavailable(
        f"no bookie is named, and none answers at {' or '.join(DEFAULT_ADMINS)}: add --admin HOST:PORT, its admin port,"
        f" or --config FILE, its settings file, or set {SOCKET_VARIABLE}"
    )


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def data_beside(arguments: argparse.Namespace) -> str:
    """Return why no cluster may be made here: a directory of the settings holds data; "" when none does."""
    from bookie.integrity import sentinel

    loaded = settings.load(arguments)
    for key in DIRECTORIES:
        for directory in loaded.names(key):
            if output.is_there(sentinel.path(directory)):
                return (
                    f"{directory} ({loaded.values[key].origin}) holds data of an earlier cluster: correct the metadata"
                    " service URI, or restore its metadata store from a backup"
                )
    return ""


@contextlib.contextmanager
def _telling_of_data(arguments: argparse.Namespace, uri: str) -> "Iterator[None]":
    """Where directories hold data, replace an error's advice to make a cluster."""
    try:
        yield
    except errors.NoCluster as error:
        try:
            reason = data_beside(arguments)
        except errors.BadInput as unseen:  # it may hold data: nobody is advised to make a cluster
            reason = str(unseen)
        if reason:
            raise errors.RefusedToStart(f"there is no cluster at {uri}, but {reason}") from None
        raise error from None


@contextlib.asynccontextmanager
async def client(arguments: argparse.Namespace, *, session_ms: int | None = None) -> "AsyncIterator[Client]":
    """Open a client of the cluster; it encrypts and proves who it is as a bookie with these settings does."""
    from bookie import connect

    loaded = settings.load(arguments)
    options = security_settings.client_options(loaded)
    options["metadata_security"] = metadata_access.security(loaded)
    uri = uri_of(arguments)
    session_ms = session_ms or SESSION_MS
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(_telling_of_data(arguments, uri))
        with _told_if_slow(uri, session_ms):
            connecting = connect.connect(uri, session_timeout_ms=session_ms, **options)
            connected = await stack.enter_async_context(connecting)
        yield connected


def certificates(arguments: argparse.Namespace) -> dict[str, TlsOptions]:
    """Return by port the files with certificates that such a client uses."""
    loaded = settings.load(arguments)
    ports = {"data": security_settings.client_options(loaded)["tls"], "metadata": metadata_access.security(loaded).tls}
    return {port: options for port, options in ports.items() if options is not None}


@contextlib.asynccontextmanager
async def session(world: World, uri: str, *, session_ms: int | None = None) -> AsyncIterator[MetadataStore]:
    """Open a session with the metadata store at `uri`; it ends with the block."""
    session_ms = session_ms or SESSION_MS
    with _told_if_slow(uri, session_ms):
        connected = await world.metadata_stores.connect(uri, session_timeout_ms=session_ms)
    try:
        yield connected
    finally:
        await connected.close()


def _told_if_slow(uri: str, session_ms: int) -> contextlib.AbstractContextManager[None]:
    return output.told_if_slow(f"the metadata store at {uri}, {session_ms / 1000:g} s at most")


@contextlib.asynccontextmanager
async def store(
    arguments: argparse.Namespace,
) -> AsyncIterator[tuple[MetadataStore, MetadataUri, World]]:
    """Open the metadata store of a cluster that need not exist yet; give the store, the cluster's root in it, and the
    world that connects to it."""
    from bookie.runtime.world import open_world

    uri = uri_of(arguments)
    parsed = paths.parse_uri(uri)
    security = metadata_access.security(settings.load(arguments))
    async with open_world(metadata_security=security) as world, session(world, uri) as connected:
        with _telling_of_data(arguments, uri):
            yield connected, parsed, world


@contextlib.asynccontextmanager
async def cluster(
    arguments: argparse.Namespace,
) -> AsyncIterator[tuple[MetadataStore, MetadataUri, World]]:
    """As `store`, of a cluster that exists. Raises NoCluster."""
    from bookie.client import cluster as clusters

    async with store(arguments) as (connected, uri, world):
        await clusters.check_exists(connected, uri.root)
        yield connected, uri, world
