"""The operator process: puts its parts together. It takes the lease first; without the lease it does nothing."""

import asyncio
import logging
import os
import signal
import time

import kopf
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration

from bookie import __version__
from bookie_operator import watch
from bookie_operator.crash import CrashPoint
from bookie_operator.execute.executor import Executor
from bookie_operator.execute.hand import LostLease
from bookie_operator.gateways.bookies import AdminPorts
from bookie_operator.gateways.endings import Endings
from bookie_operator.gateways.kube import ApiServer, KubeError
from bookie_operator.health import Vitals
from bookie_operator.identities import Identities
from bookie_operator.lease import LeaderLease
from bookie_operator.model import names
from bookie_operator.options import OperatorOptions
from bookie_operator.reconcile import Key, Reconciler
from bookie_operator.recorder import Recorder
from bookie_operator.rests import GlancedNodes, Rests
from bookie_operator.telemetry import Telemetry
from bookie_operator.workqueue import WorkQueue

logger = logging.getLogger(__name__)


async def configuration(kubeconfig: str) -> Configuration:
    """Return how to reach the API server: the pod's service account, else a kubeconfig."""
    found = Configuration()
    if kubeconfig:
        await kube_config.load_kube_config(config_file=kubeconfig, client_configuration=found)  # type: ignore[no-untyped-call]
        return found
    try:
        kube_config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
    except kube_config.ConfigException:
        await kube_config.load_kube_config(client_configuration=found)  # type: ignore[no-untyped-call]
    return found


def _connection(found: Configuration) -> kopf.ConnectionInfo:
    """Tell kopf how to reach the API server."""
    token = (found.api_key or {}).get("BearerToken", "").removeprefix("Bearer ")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
        token=token or None,
        insecure=not found.verify_ssl,
    )


async def run(options: OperatorOptions) -> int:
    """Run until SIGTERM (0) or until the lease is lost (1)."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    reached = await configuration(options.kubeconfig)
    telemetry = Telemetry()
    async with ApiServer(reached, telemetry.request) as kube:
        lease = LeaderLease(kube, options.namespace, options.lease_name, options.identity)
        bookies = AdminPorts()
        executor = Executor(
            kube,
            bookies,
            Recorder(kube, options.identity, loop.time),
            CrashPoint(options.crash_after, options.crash_dir),
            lease.is_held,
            loop.time,
            telemetry.status,
        )
        pods = Endings()
        rests = Rests(_monotonic_ms)
        reconciler = Reconciler(
            kube,
            bookies,
            executor,
            lease.term,
            _wall_ms,
            pods,
            Identities(
                kube,
                executor.store,
                bookies,
                _wall_ms,
                os.urandom,
                namespace=options.namespace,
                process=options.identity,
            ),
            rests,
            GlancedNodes(kube, _monotonic_ms),
            image=options.image,
            version=__version__,
            rolling_max=options.rolling_clusters_max,
            namespaces=options.watch_namespaces,
            owner=options.owner,
            selector=options.selector,
            refused=telemetry.refused,
            ahead_ms=lambda: kube.ahead_ms,
        )

        async def reconcile(key: Key) -> int | None:
            began_s = loop.time()
            try:
                again_ms = await reconciler.reconcile(key)
            finally:
                telemetry.passed(loop.time() - began_s)
            if again_ms is None:
                telemetry.forget(key.namespace, key.name)
            return again_ms

        queue: WorkQueue[Key] = WorkQueue(reconcile)
        operator = _Operator(options, kube, lease, queue, rests, pods, telemetry, _connection(reached))
        try:
            return await operator.run(stop)
        finally:
            await lease.release()


class _Operator:
    """The tasks of one process and how they end each other."""

    def __init__(
        self,
        options: OperatorOptions,
        kube: ApiServer,
        lease: LeaderLease,
        queue: WorkQueue[Key],
        rests: Rests,
        pods: Endings,
        telemetry: Telemetry,
        connection: kopf.ConnectionInfo,
    ) -> None:
        self._connection = connection
        self._options = options
        self._kube = kube
        self._lease = lease
        self._queue = queue
        self._rests = rests
        self._pods = pods
        self._blindness = ""  # why the clusters cannot be listed
        self._vitals = Vitals(
            {
                "lease_term": ("How often the lease changed hands", lambda: float(lease.term().number)),
                "is_leader": ("1 while we hold the lease", lambda: float(lease.is_held())),
                "queue_depth": ("Clusters waiting or being worked on", lambda: float(len(queue))),
                "passes": ("Passes that ended well", lambda: float(queue.passes)),
                "glances": ("Passes over fleets at rest: no call", lambda: float(rests.glances)),
                "pass_errors": ("Passes that failed", lambda: float(queue.errors)),
            },
            telemetry,
            self._hindrance,
        )

    def _hindrance(self) -> str:
        """Return why this process can neither lead nor wait for another leader; "" when it can."""
        return self._lease.hindrance or self._blindness or self._queue.hindrance

    async def run(self, stop: asyncio.Event) -> int:
        """Run all tasks; when the first ends, end the others. Only a stop signal is a good end (0)."""
        tasks = [
            asyncio.create_task(coroutine, name=name)
            for name, coroutine in (
                ("stop", stop.wait()),
                ("http", self._vitals.serve(self._options.http_port)),
                ("beat", self._vitals.beat()),
                ("lead", self._lead()),
            )
        ]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=10)
        for task in done:
            if task.get_name() != "stop":
                error = task.exception()
                logger.error("ending task=%s error=%s", task.get_name(), error, exc_info=error)
                return 1
        logger.info("stopped")
        return 0

    async def _lead(self) -> None:
        """Acquire, then work until the lease is gone. Renewal starts before kopf does (spec/operator.md#K28)."""
        await self._lease.acquire()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep())
            group.create_task(self._queue.run())
            group.create_task(self._resync())
            await asyncio.sleep(0)
            group.create_task(self._watch())

    async def _keep(self) -> None:
        await self._lease.keep()
        raise LostLease("the lease is gone")

    async def _resync(self) -> None:
        """Look at all clusters now and then, in case kopf missed an event: whom nobody is about to look at, and whose
        resource is not the version that was read last."""
        while True:
            blindness = ""
            for namespace in self._options.watch_namespaces or ("",):
                try:
                    manifests = await self._kube.list(names.KIND, namespace, self._options.selector)
                except KubeError as error:
                    blindness = f"the BookieClusters cannot be listed: {error}"
                    logger.warning("resync failed error=%s", error)
                    continue
                for metadata in (manifest["metadata"] for manifest in manifests):
                    key = Key(metadata["namespace"], metadata["name"])
                    is_news = self._rests.heed((key.namespace, key.name), metadata["resourceVersion"])
                    if is_news or not self._queue.knows(key):
                        self._queue.add(key)
            self._blindness = blindness
            await asyncio.sleep(self._options.resync_ms / 1000)

    def _changed(self, namespace: str, name: str) -> None:
        """An event of this cluster or of a child of it: the next pass, which is soon, reads everything."""
        self._rests.stir((namespace, name))
        self._queue.add(Key(namespace, name))

    async def _watch(self) -> None:
        """Run kopf. When one of its watches fails, kopf and this process end, and the kubelet starts it again."""
        await kopf.operator(
            registry=watch.registry(self._changed, self._pods.saw, self._connection),
            settings=watch.settings(self._options.selector),
            clusterwide=not self._options.watch_namespaces,
            namespaces=self._options.watch_namespaces,
            standalone=True,
            # Else kopf asks who the user is, and a container's user has no name.
            identity=self._options.identity,  # type: ignore[arg-type]  # kopf.Identity is not exported
        )
        raise LostLease("the watches ended")


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
