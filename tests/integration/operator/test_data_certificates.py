"""The data port's certificates of the operator, renewed for a year under a client that never fails a handshake.

Files reach the bookie and the client when the test says so, as their kubelets would bring them: at different times.
"""

import datetime as dt
import os
import ssl
from pathlib import Path

import operator_support as make
from bookie.ports.tls import TlsOptions
from bookie.runtime.tls import SslTls
from bookie_operator.identities import Identities
from bookie_operator.model import names
from identity_support import Secrets
from story_support import in_a_loop

CLUSTER = make.cluster(security={"tls": {"mode": "Required"}})
HOST = "ledgers-zone-a-0.ledgers-bookies.data.svc.cluster.local"


class Story:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secrets = Secrets()
        self.now = dt.datetime.now(dt.UTC)
        clock = lambda: int(self.now.timestamp() * 1000)  # noqa: E731 - one line, used once
        self.identities = Identities(
            self.secrets, self.secrets.store, self.secrets, clock, os.urandom, namespace="system", process="operator"
        )

    async def pass_at(self, days_ago: int) -> None:
        self.now = dt.datetime.now(dt.UTC) - dt.timedelta(days=days_ago)
        await self.identities.ensure(CLUSTER)

    def bring_to_bookie(self) -> None:
        for file in ("tls.crt", "tls.key", "ca.crt"):
            data = self.secrets.text(("data", names.DATA_CERTIFICATES), f"ledgers.{file}")
            (self.folder / file).write_bytes(data)

    def bring_to_client(self) -> None:
        (self.folder / "trusted.crt").write_text(self.secrets.data[("data", "ledgers-ca")]["ca.crt"][1])

    def server(self) -> SslTls:
        key, certificate = str(self.folder / "tls.key"), str(self.folder / "tls.crt")
        return SslTls(TlsOptions(key_store=key, certificate=certificate), is_server=True)

    def client(self) -> SslTls:
        return SslTls(TlsOptions(trust_store=str(self.folder / "trusted.crt")), is_server=False)


def shakes(client: SslTls, server: SslTls, host: str = HOST) -> str:
    """ "" when the client accepts the bookie under this name, else why not."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.context().wrap_bio(to_client, to_server, server_hostname=host),
        server.context().wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(5):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return str(error)
    return "" if sides[0].version() in ("TLSv1.2", "TLSv1.3") else "no end"


@in_a_loop
async def test_an_authority_is_replaced_under_bookies_and_clients_that_never_restart(*, tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.pass_at(253)
    first = story.secrets.text(("data", names.DATA_CERTIFICATES), "ledgers.ca.crt")
    await story.pass_at(8)  # the next authority is told to everybody, and does not sign yet
    story.bring_to_bookie()
    story.bring_to_client()
    assert (tmp_path / "trusted.crt").read_bytes().startswith(first)
    server, client = story.server(), story.client()
    assert shakes(client, server) == ""

    await story.pass_at(0)  # now it signs
    assert shakes(client, server) == "", "the bookie has the former certificate"
    before = (tmp_path / "tls.crt").read_bytes()
    story.bring_to_bookie()
    assert (tmp_path / "tls.crt").read_bytes() != before
    assert shakes(client, server) == "", "the client heard of this authority a week ago"


@in_a_loop
async def test_a_certificate_is_for_the_bookies_of_one_cluster_alone(*, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    story, stranger = Story(tmp_path), Story(tmp_path / "other")
    for one in (story, stranger):
        await one.pass_at(0)
        one.bring_to_bookie()
        one.bring_to_client()

    assert shakes(story.client(), story.server()) == ""
    assert "certificate" in shakes(story.client(), stranger.server())
    assert "Hostname" in shakes(story.client(), story.server(), "ledgers-zone-a-0.logs-bookies.data.svc.cluster.local")
