"""Where a local fleet keeps its things, its ports, and the settings file of each bookie.

DATA/LOCK                  held while a fleet runs here
DATA/zookeeper/            zoo.cfg, data
DATA/bookie-1.conf         `bookie serve --config` of this starts that bookie again
DATA/bookie-1/             journal, ledgers, index: one volume each
DATA/logs/                 zookeeper.log, bookie-1.log, ...
"""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bookie.base import errors
from bookie.runtime import properties
from bookie.settings.table import PORT_MAX

_PORTS_PER_BOOKIE = 3
_STEP = 10
# Short enough to see a killed bookie go while one watches, long enough for a busy laptop.
_SESSION_TIMEOUT_MS = 6000


@dataclass(frozen=True, slots=True)
class LocalBookie:
    """One bookie of the fleet. Its id is its address, as with Java bookies that were told nothing else."""

    number: int
    port: int
    admin_port: int
    metrics_port: int
    home: Path
    config: Path
    log: Path

    @property
    def bookie_id(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def volumes(self) -> dict[str, str]:
        """Return the directory of each role."""
        return {role: str(self.home / role) for role in ("journal", "ledgers", "index")}


@contextlib.contextmanager
def held(data: Path) -> Iterator[None]:
    """Lock the folder for this process until the block ends; the kernel unlocks it with the process. Raises
    RefusedToStart when another process holds it, before anything in it is touched; BadInput where none can be."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = (data / "LOCK").open("a+", encoding="utf-8")
    except OSError as error:
        raise errors.BadInput(f"{data} can be no folder of a fleet: {error.strerror}: choose another --data") from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise errors.RefusedToStart(
                f"another `bookie local` runs in {data} (process {file.read().strip() or 'unknown'}): stop it first, or"
                " choose another --data"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def check_folder(data: Path) -> None:
    """Raise BadInput for a folder whose path no settings file can name: lists of directories are split at commas, lines
    at what ends one, and "${" refers to another value."""
    text = str(data)
    wrong = [repr(part) for part in (",", "${") if part in text]
    wrong += sorted({repr(part) for part in text if not part.isprintable()})  # line ends, and bytes that are no UTF-8
    if wrong:
        raise errors.BadInput(
            f"--data is {text!r}: {' and '.join(wrong)} cannot stand in a bookie's paths: choose another"
        )


def check_ports(count: int, base_port: int | None, zookeeper_port: int | None) -> None:
    """Raise BadInput for ports that no fleet of `count` bookies can have: before a settings file names one for ever."""
    if zookeeper_port is not None and not 1 <= zookeeper_port <= PORT_MAX:
        raise errors.BadInput(f"--zk-port is {zookeeper_port}: it must be 1 to {PORT_MAX}")
    if base_port is not None:
        base_max = PORT_MAX - (_STEP * (count - 1) + _PORTS_PER_BOOKIE - 1)
        if not 1 <= base_port <= base_max:
            raise errors.BadInput(f"--base-port is {base_port}: for {count} bookies it must be 1 to {base_max}")


def check_free(port: int) -> None:
    """Raise RefusedToStart when something listens on the port. A ZooKeeper that does would be taken for ours, and our
    bookies would join its cluster."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError as error:
            raise errors.RefusedToStart(
                f"ZooKeeper cannot listen on port {port}: {error.strerror}: stop what does, or choose another --zk-port"
            ) from error


def plan(data: Path, count: int, base_port: int | None) -> list[LocalBookie]:
    """Return the fleet in `data`, with the ports it had, else the given ones, else free ones."""
    fleet = []
    for number in range(1, count + 1):
        config = data / f"bookie-{number}.conf"
        if config.exists():
            ports = _ports_in(config)
            if base_port is not None and ports[0] != base_port + _STEP * (number - 1):
                raise errors.BadInput(
                    f"{config} has port {ports[0]}, which is this bookie's name for ever: leave --base-port away, or"
                    f" start with another --data"
                )
        elif base_port is not None:
            first = base_port + _STEP * (number - 1)
            ports = (first, first + 1, first + 2)
        else:
            first, second, third = free_ports(_PORTS_PER_BOOKIE)
            ports = (first, second, third)
        log = data / "logs" / f"bookie-{number}.log"
        fleet.append(LocalBookie(number, *ports, home=data / f"bookie-{number}", config=config, log=log))
    return fleet


def _ports_in(config: Path) -> tuple[int, int, int]:
    found = {name: text for name, text, _ in properties.read(str(config))}
    try:
        return int(found["bookiePort"]), int(found["adminPort"]), int(found["metricsPort"])
    except (KeyError, ValueError) as error:
        raise errors.BadInput(f"{config} is not a settings file of `bookie local`: {error!r}") from error


def write_config(bookie: LocalBookie, uri: str, *, journal_write_data: bool, regeneration: str) -> None:
    """Write the bookie's settings file, and make the parents of its volumes."""
    for directory in bookie.volumes.values():
        Path(directory).mkdir(parents=True, exist_ok=True)
    bookie.config.write_text(
        f"# Written by `bookie local`. To start this bookie again: bookie serve --config {bookie.config}\n"
        f"bookieId={bookie.bookie_id}\nbookiePort={bookie.port}\nadminPort={bookie.admin_port}\n"
        f"metricsPort={bookie.metrics_port}\nadvertisedAddress=127.0.0.1\nlisteningAddress=127.0.0.1\n"
        f"metadataServiceUri={uri}\nzkTimeout={_SESSION_TIMEOUT_MS}\n"
        f"journalDirectories={bookie.volumes['journal']}\nledgerDirectories={bookie.volumes['ledgers']}\n"
        f"indexDirectories={bookie.volumes['index']}\njournalWriteData={str(journal_write_data).lower()}\n"
        f"zone=zone-{(bookie.number - 1) % 3 + 1}\nregeneration={regeneration}\nvolumeProof=none\n"
        "diskUsageThreshold=0.98\n",
        encoding="utf-8",
    )


def free_ports(count: int) -> list[int]:
    """Return `count` different loopback ports that are free at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
