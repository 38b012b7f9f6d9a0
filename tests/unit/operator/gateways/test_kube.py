"""The API server's answers: what its Date says of our clock, and which refusals are a missing right."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from email.utils import parsedate_to_datetime

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from bookie_operator import failures
from bookie_operator.gateways.kube import ApiServer, KubeError

DATE = "Thu, 26 Nov 2026 16:00:00 GMT"
DATE_MS = int(parsedate_to_datetime(DATE).timestamp()) * 1_000
DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize(
    ("date", "ahead_ms", "told_ms"),
    [
        (DATE, 30 * DAY_MS, 30 * DAY_MS),
        (DATE, -30 * DAY_MS, -30 * DAY_MS),
        (DATE, 59_000, 0),
        ("yesterday", 30 * DAY_MS, 0),
        ("Thu, 26 Nov 20260 99:00:00 GMT", 30 * DAY_MS, 0),
    ],
)
def test_the_date_of_an_answer_says_how_far_our_clock_is_ahead(date: str, ahead_ms: int, told_ms: int) -> None:
    assert asyncio.run(asked(date, DATE_MS + ahead_ms)).ahead_ms == told_ms


RIGHT = 'services "a" is forbidden: User "system:serviceaccount:b:op" cannot patch resource "services" in API group ""'
OWNERS = (
    'services "a" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can\'t set'
    " finalizers on"
)
QUOTA = 'services "a" is forbidden: exceeded quota: team, requested: services=1, used: services=5, limited: services=5'
ENDS = 'services "a" is forbidden: unable to create new content in namespace data because it is being terminated'
LIMIT = 'persistentvolumeclaims "a" is forbidden: maximum storage usage per PersistentVolumeClaim is 5Gi'
POLICY = "services \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
WEBHOOK = 'admission webhook "w.example.org" denied the request: User "bob" cannot do that'


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (RIGHT, "PermissionMissing"),
        ('services is forbidden: User "system:anonymous" cannot list resource "services"', "PermissionMissing"),
        (OWNERS, "PermissionMissing"),
        ("Forbidden", "PermissionMissing"),
        (QUOTA, "QuotaExceeded"),
        (ENDS, "ApplyRefused"),
        (LIMIT, "ApplyRefused"),
        (POLICY, "ApplyRefused"),
        (WEBHOOK, "ApplyRefused"),
    ],
)
def test_a_403_is_a_missing_right_only_where_it_says_so(words: str, reason: str) -> None:
    error = asyncio.run(refused(words))

    assert failures.refusal_reason(error) == reason
    assert words in str(error)
    assert error.quota == ("team" if words == QUOTA else "")


def test_a_status_is_replaced_whole_over_the_version_that_was_read() -> None:
    """Applied, it would leave in it what another manager wrote there."""
    seen = []

    async def node(request: web.Request) -> web.Response:
        seen.append((request.headers["Content-Type"], dict(request.query), await request.json()))
        return web.json_response({})

    async def written() -> None:
        async with serving(node, path="/api/v1/nodes/a/status", method="PATCH") as server:
            manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "resourceVersion": "7"}}
            await server.replace_status(manifest | {"status": {"phase": "b"}}, manager="ours")

    asyncio.run(written())

    whole = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/status", "value": {"phase": "b"}},
    ]
    assert seen == [("application/json-patch+json", {"fieldManager": "ours"}, whole)]


async def refused(words: str) -> KubeError:
    """How the client tells of a read that is answered with 403 and these words."""

    async def nodes(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": words}, status=403)

    async with serving(nodes) as server:
        with pytest.raises(KubeError) as error:
            await server.list("Node", "")
        return error.value


async def asked(date: str, wall_ms: int) -> ApiServer:
    """An API server that was asked once, answered with this Date, and was heard at `wall_ms`."""

    async def nodes(_: web.Request) -> web.Response:
        return web.json_response({"items": []}, headers={"Date": date})

    async with serving(nodes, lambda: wall_ms) as server:
        assert await server.list("Node", "") == []
        return server


@contextlib.asynccontextmanager
async def serving(
    nodes: Callable[[web.Request], Awaitable[web.Response]],
    wall_ms: Callable[[], int] = lambda: DATE_MS,
    path: str = "/api/v1/nodes",
    method: str = "GET",
) -> AsyncIterator[ApiServer]:
    """A client of an API server that answers for nodes (or for `path` alone), and for nothing else."""
    app = web.Application()
    app.router.add_route(method, path, nodes)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with ApiServer(Configuration(host=f"http://127.0.0.1:{port}"), wall_ms=wall_ms) as server:
            yield server
    finally:
        await runner.cleanup()
