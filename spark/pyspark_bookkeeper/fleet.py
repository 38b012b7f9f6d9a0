"""The bookies and their metadata, as the tasks of a job see them: one client per process and connection.

Spark keeps its Python workers and gives a task nothing that outlives it but the globals of an importable module. So the
clients live here, the one module state of this package: a connection pool serves every task and query that its process
runs, and ends with the process. Whoever forks gets clients of its own.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401  # registers its hook at exit, which must run after ours
import functools
import itertools
import os
import threading
from collections.abc import Iterable, Iterator

from bookie import blocking
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId
from bookie.blocking import BlockingClient
from bookie.client import Client
from bookie.client.net.watcher import BookieRecord
from bookie.metadata.ledger import LedgerMetadata
from pyspark_bookkeeper import client_settings
from pyspark_bookkeeper.options import ClusterConnection

# Questions asked at once: enough that no bookie waits for us, few enough to be answered within a request's deadline.
QUESTIONS_MAX = 256

# Runs (first, last), inclusive, of the entries one bookie holds of one ledger; or why it did not say.
Held = list[tuple[int, int]] | BookieError


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

    def has(self, connection: ClusterConnection) -> bool:
        return connection in self._open

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
    """This process' client for `connection`, made at first use. Nobody but `close_all` closes it.

    Raises BadInput, MetadataError naming the address of the metadata store.
    """
    global _clients
    if _clients.pid != os.getpid():
        _inherited.append(_clients)
        _clients = _Clients()
    return _clients.get(connection)


def is_connected(connection: ClusterConnection) -> bool:
    """True when this process has a client for `connection`."""
    return _clients.pid == os.getpid() and _clients.has(connection)


def close_all() -> None:
    """End this process' clients; the next use makes new ones. Called at exit."""
    if _clients.pid == os.getpid():
        _clients.close()


# The hook that executors use for themselves; the last registered runs first. `atexit` comes after all of them, and then
# a session with the metadata store cannot be ended any more: the store would keep it until its time is up.
getattr(threading, "_register_atexit", lambda _: None)(close_all)


# ---- questions about the whole fleet ---------------------------------------------------------------------------------


def snapshot(
    connection: ClusterConnection,
    ledger_ids: Iterable[LedgerId] | None = None,
    *,
    unreadable: dict[LedgerId, str] | None = None,
) -> Iterator[tuple[LedgerId, LedgerMetadata, int]]:
    """(id, metadata, version) of the given ledgers or of all, read many at a time; those that are gone are left out.

    Each record is as it stood when it was read. `unreadable` gets the reason for each that cannot be read; without it
    such a one raises BadInput naming its ledger.
    """
    return client(connection).snapshot(ledger_ids, unreadable=unreadable)


def ledger_ids(connection: ClusterConnection) -> Iterator[LedgerId]:
    """The ids of all ledgers, ascending."""
    return client(connection).ledgers()


def bookies(connection: ClusterConnection) -> list[BookieRecord]:
    """The bookies that are registered now, with their zones, by id."""
    return client(connection).run(lambda one: one.admin.bookies())


def known_bookies(connection: ClusterConnection) -> list[BookieId]:
    """Every bookie that has a cookie, alive or not, by id."""
    return client(connection).run(lambda one: one.admin.known_bookies())


def list_entries(
    connection: ClusterConnection, questions: Iterable[tuple[BookieId, LedgerId]]
) -> Iterator[tuple[BookieId, LedgerId, Held]]:
    """What each bookie says it holds of a ledger, asked many at a time, answered in the order of `questions`.

    One bookie's word, or the error in its place: NoSuchLedger is an answer ("nothing"), every other error is none.
    """
    ours = client(connection)
    remaining = iter(questions)
    while batch := list(itertools.islice(remaining, QUESTIONS_MAX)):
        answers = ours.run(functools.partial(_ask_all, batch))
        for (bookie_id, ledger_id), held in zip(batch, answers, strict=True):
            yield bookie_id, ledger_id, held


async def _ask_all(batch: list[tuple[BookieId, LedgerId]], one: Client) -> list[Held]:
    async def ask(bookie_id: BookieId, ledger_id: LedgerId) -> Held:
        try:
            return await one.bookies.list_entries(bookie_id, ledger_id)
        except BookieError as error:
            return error

    return await asyncio.gather(*(ask(bookie_id, ledger_id) for bookie_id, ledger_id in batch))
