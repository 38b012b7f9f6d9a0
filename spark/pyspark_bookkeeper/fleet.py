"""Gives the tasks of a job access to the bookies and their metadata: one client per process and connection.

Spark keeps its Python workers and gives a task nothing that outlives it but the globals of an importable module. So the
clients live here, the one module state of this package: a connection pool serves every task and query that its process
runs, and ends with the process. A forked process makes clients of its own.
"""

import concurrent.futures.thread  # noqa: F401  # registers its hook at exit, which must run after ours
import os
import threading

from bookie import blocking
from bookie.base.ids import BookieId
from bookie.blocking import BlockingClient
from bookie.client.net.watcher import BookieRecord
from pyspark_bookkeeper import client_settings
from pyspark_bookkeeper.options import ClusterConnection

# Questions asked at once: enough that no bookie waits for us, few enough to be answered within a request's deadline.
QUESTIONS_MAX = 256


class _Clients:
    """The clients of one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._open: dict[ClusterConnection, BlockingClient] = {}

    def get(self, connection: ClusterConnection) -> BlockingClient:
        with self._lock:
            client = self._open.get(connection)
            if client is None or not client.is_open:
                client = blocking.open_client(connection.uri, **client_settings.client_options(connection.client))
                self._open[connection] = client
            return client

    def close(self) -> None:
        with self._lock:
            clients, self._open = self._open, {}
        for client in clients.values():
            client.close()


_clients = _Clients()
# Of the processes we were forked from: their threads do not exist here and their sockets are not ours, so they are kept
# untouched. Dropping them could close what the parent still uses.
_inherited: list[_Clients] = []


def client(connection: ClusterConnection) -> BlockingClient:
    """Return this process' client for `connection`, made at first use. Nobody but `close_all` closes it.

    Raises BadInput, MetadataError naming the address of the metadata store.
    """
    global _clients
    if _clients.pid != os.getpid():
        _inherited.append(_clients)
        _clients = _Clients()
    return _clients.get(connection)


def close_all() -> None:
    """End this process' clients; the next use makes new ones. Called at exit."""
    if _clients.pid == os.getpid():
        _clients.close()


# The hook that executors use for themselves; the last registered runs first. `atexit` comes after all of them, and then
# a session with the metadata store cannot be ended any more: the store would keep it until its time is up.
getattr(threading, "_register_atexit", lambda _: None)(close_all)


# ---- questions about the whole fleet ---------------------------------------------------------------------------------


def bookies(connection: ClusterConnection) -> list[BookieRecord]:
    """Return the bookies that are registered now, with their zones, by id."""
    return client(connection).run(lambda one: one.admin.bookies())


def known_bookies(connection: ClusterConnection) -> list[BookieId]:
    """Return every bookie that has a cookie, alive or not, by id."""
    return client(connection).run(lambda one: one.admin.known_bookies())
