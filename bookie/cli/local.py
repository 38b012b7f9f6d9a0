"""`bookie local`: a fleet on this machine, until SIGTERM. For development, and for other people's clients."""

import argparse
import asyncio
import json
from pathlib import Path

from bookie.base import errors, extras
from bookie.cli import output
from bookie.local import fleet, layout
from bookie.local.fleet import Fleet, FleetOptions
from bookie.runtime import log, loop
from bookie.runtime.world import open_world

# A process each, of some 100 MiB before the first entry: more ends a machine's memory long before it says why.
_BOOKIES_MAX = 100


def add_verbs(noun: argparse.ArgumentParser) -> None:
    noun.add_argument(
        "--bookies",
        type=output.whole,
        default=3,
        metavar="N",
        help=f"start this many bookies (default 3, at most {_BOOKIES_MAX})",
    )
    noun.add_argument(
        "--data",
        required=True,
        metavar="DIR",
        help="keep everything in this directory; a fleet that was there before goes on",
    )
    noun.add_argument("--json", action="store_true", help="print one line of JSON when all bookies are registered")
    noun.add_argument("--metadata-service-uri", metavar="URI", help="use this ZooKeeper instead of starting one")
    noun.add_argument(
        "--base-port",
        type=output.whole,
        metavar="PORT",
        help="give bookie N the port PORT + 10(N-1) (default: free ports)",
    )
    noun.add_argument("--zk-port", type=output.whole, metavar="PORT", help="the ZooKeeper's port (default: a free one)")
    noun.add_argument(
        "--journal-write-data",
        choices=("true", "false"),
        default="true",
        help="whether entries go through the journal (default true)",
    )
    noun.add_argument(
        "--regeneration",
        choices=("gated", "local"),
        default="gated",
        help="gated: an emptied bookie waits for `bookie integrity grant`; local: it repairs itself",
    )
    noun.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    for extra in ("bookie",) if arguments.metadata_service_uri else ("bookie", "spark"):  # pyspark brings ZooKeeper
        if module := extras.missing(extra):
            raise errors.RefusedToStart(extras.sentence("bookie local", module))
    if not 1 <= arguments.bookies <= _BOOKIES_MAX:
        raise errors.BadInput(f"--bookies is {arguments.bookies}: it must be 1 to {_BOOKIES_MAX}")
    data = Path(arguments.data).resolve()
    layout.check_folder(data)
    layout.check_ports(arguments.bookies, arguments.base_port, arguments.zk_port)
    log.set_up()
    options = FleetOptions(
        data=data,
        bookies=arguments.bookies,
        metadata_uri=arguments.metadata_service_uri,
        base_port=arguments.base_port,
        zookeeper_port=arguments.zk_port,
        journal_write_data=arguments.journal_write_data == "true",
        regeneration=arguments.regeneration,
    )
    try:
        loop.run(_run(options, as_json=arguments.json))
    except OSError as error:  # a full disk, a file that is in the way
        raise errors.RefusedToStart(
            f"{error.filename or data} cannot be used: {error.strerror or error}: make room there, or choose another"
            " --data"
        ) from error
    return 0


async def _run(options: FleetOptions, *, as_json: bool) -> None:
    stop = asyncio.Event()
    main = asyncio.current_task()
    assert main is not None
    started = False

    def on_stop() -> None:
        stop.set()
        if not started:
            main.cancel()  # still starting: unwind what is there

    loop.on_stop_signals(on_stop)
    try:
        async with open_world() as world, fleet.run(options, world) as running:
            started = True
            _tell(running, as_json=as_json)
            await stop.wait()
    except asyncio.CancelledError:
        if not stop.is_set():
            raise


def _tell(running: Fleet, *, as_json: bool) -> None:
    facts = running.facts()
    if as_json:
        print(json.dumps(facts), flush=True)
        return
    print(f"metadata  {facts['metadataServiceUri']}")
    for bookie in facts["bookies"]:
        print(f"bookie    {bookie['id']}  pid {bookie['pid']}  admin {bookie['adminPort']}  {bookie['config']}")
    print("ready; Ctrl-C ends it", flush=True)
