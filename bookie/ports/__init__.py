"""The outside world as interfaces. Each is implemented twice: by `bookie.runtime` (real) and `bookie.sim` (simulated).

`World` is everything outside that one node is given when it is constructed. Product code reaches the world through
it and in no other way (import contracts 4 and 5).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bookie.ports.clock import Clock
from bookie.ports.disk import Disk
from bookie.ports.entropy import Entropy
from bookie.ports.metadata_store import MetadataStores
from bookie.ports.network import Network
from bookie.ports.ordered_store import OrderedStores


@dataclass(frozen=True, slots=True)
class Host:
    """Facts about where this node runs. `pod_uid` is "" outside Kubernetes (downward API, POD_UID)."""

    name: str = "localhost"
    pod_uid: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    """The ports of one node. They promise what their modules say, and nothing more."""

    clock: Clock
    disk: Disk
    ordered_stores: OrderedStores
    network: Network
    metadata_stores: MetadataStores
    entropy: Entropy
    host: Host = field(default_factory=Host)
