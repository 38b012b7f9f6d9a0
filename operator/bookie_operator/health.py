"""Health and metrics of the operator over HTTP: /livez, /readyz, /metrics. The operator is alive while its loop runs
and its passes end."""

import asyncio
import socket
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

LAG_MAX_S = 10.0


class Vitals:
    """The operator's state for health checks and metrics. `metrics` are callables, read at scrape time."""

    def __init__(
        self,
        metrics: dict[str, tuple[str, Callable[[], float]]],
        telemetry: Collector,
        hindrance: Callable[[], str],
    ) -> None:
        """`telemetry`: more to scrape. `hindrance`: returns why this process cannot do its work now, in a sentence; ""
        when it can."""
        self._hindrance = hindrance
        self._beat = asyncio.get_running_loop().time()
        self._registry = CollectorRegistry()
        for name, (text, read) in metrics.items():
            Gauge(f"bookie_operator_{name}", text, registry=self._registry).set_function(read)
        self._registry.register(telemetry)
        ProcessCollector(registry=self._registry)

    async def beat(self) -> None:
        """Note the time, once a second. A blocked loop notes none, and then /livez fails."""
        while True:
            self._beat = asyncio.get_running_loop().time()
            await asyncio.sleep(1)

    async def serve(self, port: int) -> None:
        """Serve HTTP until cancelled."""
        app = web.Application()
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            # Kubelets call the pod's first address, of whichever family.
            both = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if both else socket.AF_INET
            listening = socket.create_server(("", port), family=family, dualstack_ipv6=both)
            await web.SockSite(runner, listening).start()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        lag_s = asyncio.get_running_loop().time() - self._beat
        return web.Response(status=200 if lag_s < LAG_MAX_S else 500, text=f"lag_s={lag_s:.1f}\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        hindrance = self._hindrance()
        return web.Response(
            status=503 if hindrance else 200, text=f"not ready: {hindrance}\n" if hindrance else "ready\n"
        )

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), content_type="text/plain")
