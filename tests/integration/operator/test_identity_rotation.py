"""Operator and bookie renew what they show each other, over real handshakes, each at its own pace and never together.

The operator's clock is set by the test, and certificates reach the bookie's files when the test says so, as a kubelet
would bring them; the bookie's clock is the real one. So the story begins 253 days ago and ends now.
"""

import asyncio
import contextlib
import datetime as dt
import os
import ssl
from pathlib import Path

import operator_support as make
from bookie.ports import admin as port
from bookie.ports.network import Address
from bookie.runtime import admin, admin_secure, admin_tls
from bookie.runtime.admin_callers import Callers
from bookie_operator.evidence.facts import Door
from bookie_operator.gateways.bookies import AdminPorts, BookieUnreachable
from bookie_operator.identities import Identities
from bookie_operator.model import names
from identity_support import Secrets
from story_support import in_a_loop

ANYWHERE = Address("127.0.0.1", 0)
CLUSTER = make.cluster()


class Node:
    def is_healthy(self, question: port.Health) -> bool:
        return True

    async def storage_report(self, *, fresh: bool = False) -> port.StorageReport:
        return port.StorageReport("b", "", port.State.SERVING, None, "")  # type: ignore[arg-type]


class Operator:
    """One process: its identities, its ports, its clock."""

    def __init__(self, secrets: Secrets) -> None:
        self.ports = AdminPorts()
        self.now = dt.datetime.now(dt.UTC)
        clock = lambda: int(self.now.timestamp() * 1000)  # noqa: E731 - one line, used once
        self._identities = Identities(
            secrets, secrets.store, self.ports, clock, os.urandom, namespace="system", process="operator"
        )

    async def pass_at(self, days_ago: int) -> None:
        self.now = dt.datetime.now(dt.UTC) - dt.timedelta(days=days_ago)
        await self._identities.ensure(CLUSTER)

    async def sees(self, address: str) -> bool:
        try:
            return (await self.ports.report(Door(address, CLUSTER.uid), fresh=False)).bookie_id == "b"
        except BookieUnreachable:
            return False


def bring(secrets: Secrets, folder: Path) -> None:
    """What a kubelet does within a minute or two of a change."""
    for file in ("tls.crt", "tls.key", "ca.crt", "clients"):
        where = ("data", names.ADMIN_CERTIFICATES)
        (folder / file).write_bytes(secrets.text(where, f"{CLUSTER.name}.{file}"))


def shows(number: int, folder: Path) -> bool:
    """Return True once the port shows the certificate that lies in the folder."""
    with contextlib.suppress(OSError):
        return (folder / "tls.crt").read_text().startswith(ssl.get_server_certificate(("127.0.0.1", number)))
    return False


@in_a_loop
async def test_an_authority_is_replaced_while_operator_and_bookie_talk_all_the_time(*, tmp_path: Path) -> None:
    secrets = Secrets()
    operator = Operator(secrets)
    await operator.pass_at(253)
    first = secrets.text(("data", names.ADMIN_CERTIFICATES), f"{CLUSTER.name}.ca.crt")
    await operator.pass_at(8)  # the next authority is published, and does not sign yet
    both = secrets.text(("data", names.ADMIN_CERTIFICATES), f"{CLUSTER.name}.ca.crt")
    assert both.startswith(first)
    assert both.count(b"BEGIN CERTIFICATE") == 2
    bring(secrets, tmp_path)
    tls = admin_secure.Secured(ANYWHERE, admin_tls.Certificates(str(tmp_path)))
    callers = Callers(in_pod=True, names=tls.certificates)
    async with admin.serve(Node(), ANYWHERE, callers, tls=tls), asyncio.timeout(50):  # type: ignore[arg-type]
        address = f"127.0.0.1:{tls.bound}"
        await operator.pass_at(0)  # the new one signs for the operator; the bookie has heard of it, no more
        assert await operator.sees(address)
        bring(secrets, tmp_path)  # and for the bookie, which did not restart
        while not await asyncio.to_thread(shows, tls.bound, tmp_path):
            pass
        assert await operator.sees(address)

        restarted = Operator(secrets)
        await restarted.pass_at(0)
        assert await restarted.sees(address)

        stranger = Operator(Secrets())  # the same cluster in name and uid, another authority
        await stranger.pass_at(0)
        assert not await stranger.sees(address)
