"""A cluster whose bookies know their clients by password: writers, readers, and bookies that repair themselves."""

import asyncio
import dataclasses

import pytest

from bookie.base import errors
from bookie.base.errors import BadInput
from bookie.base.secret import Secret
from bookie.ports.admin import State
from bookie.ports.tls import TlsOptions
from bookie.server import security
from bookie.server.security import SecurityOptions
from bookie.sim.cluster import SimCluster
from bookie.sim.node import Simulation

USER, PASSWORD = "bookkeeperuser", Secret("correct-horse-battery")
SECURED = SecurityOptions(
    provider="sasl",
    users={USER: PASSWORD, "bookkeeperbookie": Secret("among-us")},
    peer_user="bookkeeperbookie",
    peer_password=Secret("among-us"),
)
CLIENT = {"sasl_user": USER, "sasl_password": PASSWORD}


@pytest.mark.parametrize("seed", range(3))
def test_an_authenticated_writer_s_ledger_survives_the_wipe_of_a_bookie_that_authenticates_to_its_peers(
    seed: int,
) -> None:
    async def story(cluster: SimCluster) -> list[bytes]:
        c1 = await cluster.client("c1")
        writer = await c1(c1.client.create())
        for number in range(20):
            await c1(writer.append(b"entry %d" % number))
        await c1(writer.close())
        victim = cluster.bookies["bookie-0"]
        victim.crash()
        victim.wipe()
        victim.start()
        await cluster.until(lambda: victim.state is State.WAITING_GRANT, "bookie-0 waits for a grant")
        await victim.grant()
        await cluster.until(lambda: victim.state is State.SERVING, "bookie-0 has everything back")
        for name in ("bookie-1", "bookie-2"):
            cluster.bookies[name].crash()
        reader = await c1(c1.client.open(writer.id))
        return [entry.payload for entry in await c1(reader.read(0, 19))]

    cluster = SimCluster(seed, regeneration="gated", security=SECURED, client=CLIENT)

    assert cluster.run(story) == [b"entry %d" % number for number in range(20)]


@pytest.mark.parametrize("client", [{}, {"sasl_user": USER, "sasl_password": Secret("a-guess")}])
def test_nobody_else_writes_or_fences(client: dict[str, object]) -> None:
    async def story(cluster: SimCluster) -> None:
        c1 = await cluster.client("c1")
        writer = await c1(c1.client.create())

        with pytest.raises((errors.Unauthorized, errors.NotEnoughBookies)):
            await c1(writer.append(b"not let in"))

        await asyncio.sleep(1)
        for bookie in cluster.bookies.values():
            assert bookie.process is not None
            assert bookie.process.metrics.adds == 0

    SimCluster(1, security=SECURED, client={**client, "ensemble_timeout_ms": 3_000}).run(story)


def test_the_simulated_network_refuses_tls_with_a_sentence() -> None:
    world = Simulation(1).node("bookie").begin()
    options = dataclasses.replace(SECURED, tls=TlsOptions("key.pem", certificate="cert.pem"))

    with pytest.raises(BadInput, match="simulated network has no TLS"):
        security.load(options, world)
