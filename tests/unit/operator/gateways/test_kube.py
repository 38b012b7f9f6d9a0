"""The API server's answers: what its Date says of our clock."""

import asyncio
from email.utils import parsedate_to_datetime

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from bookie_operator.gateways.kube import ApiServer

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


async def asked(date: str, wall_ms: int) -> ApiServer:
    """An API server that was asked once, answered with this Date, and was heard at `wall_ms`."""

    async def nodes(_: web.Request) -> web.Response:
        return web.json_response({"items": []}, headers={"Date": date})

    app = web.Application()
    app.router.add_get("/api/v1/nodes", nodes)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with ApiServer(Configuration(host=f"http://127.0.0.1:{port}"), wall_ms=lambda: wall_ms) as server:
            assert await server.list("Node", "") == []
            return server
    finally:
        await runner.cleanup()
