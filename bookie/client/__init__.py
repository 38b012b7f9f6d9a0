"""The client library: create, append, read, tail, recover and delete ledgers.

Drives the rules of `bookie.quorum` over the ports; `bookie.connect` opens one in the real world.
"""

from bookie.client.admin import ClusterAdmin
from bookie.client.bookies import BookieClient
from bookie.client.client import Client
from bookie.client.entry_read import Entry
from bookie.client.options import ClientOptions
from bookie.client.reader import LedgerReader
from bookie.client.writer import LedgerWriter
from bookie.wire.digest import DigestType

__all__ = [
    "BookieClient",
    "Client",
    "ClientOptions",
    "ClusterAdmin",
    "DigestType",
    "Entry",
    "LedgerReader",
    "LedgerWriter",
]
