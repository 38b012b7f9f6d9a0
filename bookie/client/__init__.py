"""The client library: create, append, read, tail, recover and delete ledgers.

Drives the rules of `bookie.quorum` over the ports; `bookie.connect` opens one in the real world.
"""

from bookie.client.admin import ClusterAdmin
from bookie.client.client import Client
from bookie.client.net.bookies import BookieClient
from bookie.client.options import ClientOptions
from bookie.client.read.entry_read import Entry
from bookie.client.read.reader import LedgerReader
from bookie.client.write.writer import LedgerWriter
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
