"""What 50 fleets of 12 bookies cost a real API server and the operator's process: `make bench-operator`.

Real: etcd, kube-apiserver, the StatefulSet and disruption controllers, and the operator as a process of its own, with
kopf's watches and mutual TLS to each bookie. Played: scheduler, kubelets and volume provisioner, by a loop here that
binds pods and claims and says that they run; and the bookies, as admin ports at an address each (127.9.C.N) that answer
as bookies at rest do. No entry is stored anywhere.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "cluster")]

import aiohttp  # noqa: E402
import grpc  # noqa: E402
import grpc.aio  # noqa: E402
import yaml  # noqa: E402
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: E402

import kube_parts  # noqa: E402
import kube_talk  # noqa: E402
import operator_support as make  # noqa: E402
import port_support  # noqa: E402
from bookie.base.ids import BookieId  # noqa: E402
from bookie.ports.admin import Member  # noqa: E402
from bookie.rpc import admin_pb2 as proto  # noqa: E402
from bookie.rpc import admin_pb2_grpc, encoding  # noqa: E402
from bookie_operator.model import names  # noqa: E402

DEPLOYMENT = ROOT / "charts" / "bookie-operator" / "templates" / "deployment.yaml"
TOKEN = "bench"  # of a server on this machine that lives for minutes
CLUSTER = "ledgers"
SYSTEM = "bookie-system"
CONTROLLERS = "statefulset-controller,disruption-controller"
NODES = 3
ADMIN_TLS = 3184
READY_TIMEOUT_S = 900.0
CALLS_A_SECOND_MAX, RSS_MAX_MIB = 5.0, 190.0  # 200 MB
PASS_P99_MAX_S = 1.0  # at rest
Json = dict[str, Any]


class Refused(Exception):
    """The API server did not do what the bench needs."""


class Api:
    """The API server as an administrator. Use as an async context manager."""

    def __init__(self, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}"

    async def __aenter__(self) -> Api:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self._session = aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False, limit=16))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(self, verb: str, path: str, body: Json | None = None, *, patch: str = "merge-patch") -> Json:
        kind = f"application/{patch}+json" if verb == "PATCH" else "application/json"
        async with self._session.request(
            verb, self.url + path, data=json.dumps(body) if body else None, headers={"Content-Type": kind}
        ) as answer:
            found = await answer.text()
            if answer.status >= 300:
                raise Refused(f"{verb} {path}: {answer.status} {found[:300]}")
            return json.loads(found) if found.startswith("{") else {"text": found}

    async def items(self, path: str) -> list[Json]:
        found: list[Json] = (await self.call("GET", path))["items"]
        return found


async def until(what: str, look: Callable[[], Awaitable[Any]], *, timeout_s: float, pause_s: float = 1.0) -> Any:
    """Return what `look` finds, once it finds anything. Raises Refused with what it found last."""
    end, last = time.monotonic() + timeout_s, "nothing"
    while time.monotonic() < end:
        try:
            if found := await look():
                return found
        except (Refused, aiohttp.ClientError, OSError, KeyError) as error:
            last = str(error)
        await asyncio.sleep(pause_s)
    raise Refused(f"{what}: not within {timeout_s:.0f} s; last: {last}")


@contextlib.contextmanager
def process(
    folder: Path, name: str, *argv: str, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run one program until the end of the block; what it says goes to `folder`/NAME.log."""
    with (folder / f"{name}.log").open("wb") as log:
        child = subprocess.Popen(argv, stdout=log, stderr=log, cwd=folder, env={**os.environ, **(env or {})})
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(timeout=20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


@contextlib.contextmanager
def control_plane(folder: Path) -> Iterator[tuple[int, Path]]:
    """Run etcd and an API server; give its port and a kubeconfig."""
    etcd_port, peer_port, port = port_support.free_ports(3)
    kubernetes = kube_parts.ensure("kubernetes")
    for name in ("kube-apiserver", "kube-controller-manager"):
        (folder / name).symlink_to(kubernetes)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "sa.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    (folder / "tokens.csv").write_text(f"{TOKEN},bench,bench,system:masters\n")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": "b",
                        "cluster": {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True},
                    }
                ],
                "users": [{"name": "b", "user": {"token": TOKEN}}],
                "contexts": [{"name": "b", "context": {"cluster": "b", "user": "b"}}],
                "current-context": "b",
            }
        )
    )
    etcd_url = f"http://127.0.0.1:{etcd_port}"
    with (
        process(
            folder,
            "etcd",
            str(kube_parts.ensure("etcd")),
            "--data-dir=etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        ),
        process(
            folder,
            "kube-apiserver",
            str(folder / "kube-apiserver"),
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            "--cert-dir=certificates",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=AlwaysAllow",
            "--disable-admission-plugins=ServiceAccount",
            "--service-account-issuer=https://bench",
            "--service-account-key-file=sa.key",
            "--service-account-signing-key-file=sa.key",
            "--service-cluster-ip-range=198.19.0.0/16",
        ),
    ):
        yield port, kubeconfig


@contextlib.contextmanager
def controllers(folder: Path) -> Iterator[None]:
    """Run what makes pods of StatefulSets and counts for disruption budgets; the API server must be ready."""
    with process(
        folder,
        "kube-controller-manager",
        str(folder / "kube-controller-manager"),
        "--kubeconfig=kubeconfig",
        f"--controllers={CONTROLLERS}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ):
        yield


@dataclass(frozen=True, slots=True)
class Fake:
    """One bookie of a fleet that is at rest."""

    namespace: str
    pod: str
    pod_uid: str
    ip: str

    @property
    def bookie_id(self) -> str:
        place = names.parse_pod(CLUSTER, self.pod)
        assert place is not None, self.pod
        return names.bookie_id(self.namespace, CLUSTER, *place)


class FakeAdmin(admin_pb2_grpc.AdminServicer):
    """Answers what the operator asks of a bookie at rest; whatever else is asked ends in an error."""

    def __init__(self, me: Fake, everybody: tuple[Fake, ...], asked: Counter[str]) -> None:
        volumes = tuple(
            make.volume_report(name, role, fsid=f"{me.pod}-{name}", sentinel=make.sentinel(me.bookie_id, 1))
            for role, name in make.ROLES
        )
        report = make.report(bookie_id=BookieId(me.bookie_id), pod_uid=me.pod_uid, volumes=volumes, ledgers_naming_me=0)
        self._report = encoding.encode(replace(report, instance_id=me.namespace))
        found = tuple(Member(one.bookie_id, True, True, True) for one in everybody)  # type: ignore[arg-type]
        self._members = proto.Members(members=encoding.encode(found))
        self._asked = asked

    async def GetStorageReport(self, request: proto.GetStorageReportRequest, context: Any) -> Any:
        self._asked["GetStorageReport"] += 1
        return self._report

    async def ListMembers(self, request: proto.ListMembersRequest, context: Any) -> Any:
        self._asked["ListMembers"] += 1
        return self._members


@contextlib.asynccontextmanager
async def bookies(
    fakes: dict[str, tuple[Fake, ...]], files: dict[str, dict[str, bytes]]
) -> AsyncIterator[Counter[str]]:
    """Serve the admin port of each fake bookie over mutual TLS; give how often each call was asked."""
    asked: Counter[str] = Counter()
    servers = []
    for namespace, fleet in fakes.items():
        of = files[namespace]
        proofs = grpc.ssl_server_credentials([(of["tls.key"], of["tls.crt"])], of["ca.crt"], require_client_auth=True)
        for one in fleet:
            server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
            admin_pb2_grpc.add_AdminServicer_to_server(FakeAdmin(one, fleet, asked), server)
            server.add_secure_port(f"{one.ip}:{ADMIN_TLS}", proofs)
            await server.start()
            servers.append(server)
    try:
        yield asked
    finally:
        await asyncio.gather(*(server.stop(0) for server in servers))


class Machines:
    """Scheduler, kubelets and provisioner: whatever is asked for is there at the next look."""

    def __init__(self, api: Api, namespaces: list[str]) -> None:
        self._api = api
        self._numbers = {namespace: number for number, namespace in enumerate(namespaces)}
        self._given: dict[str, int] = {}

    async def nodes(self) -> None:
        for number in range(NODES):
            await self._api.call("POST", "/api/v1/nodes", {"kind": "Node", "metadata": {"name": f"node-{number}"}})
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            status = {"conditions": [ready], "nodeInfo": _node_info()}
            await self._api.call("PATCH", f"/api/v1/nodes/node-{number}/status", {"status": status})

    async def look(self) -> list[Fake]:
        """Bind, provision and run what waits; return the pods that run."""
        await asyncio.gather(
            *(self._claim(one) for one in await self._api.items("/api/v1/persistentvolumeclaims") if _waits(one))
        )
        pods = [one for one in await self._api.items("/api/v1/pods") if "deletionTimestamp" not in one["metadata"]]
        found = [one for one in pods if one["metadata"]["namespace"] in self._numbers]
        await asyncio.gather(*(self._pod(one) for one in found if one["status"].get("phase") != "Running"))
        return [
            Fake(one["metadata"]["namespace"], one["metadata"]["name"], one["metadata"]["uid"], one["status"]["podIP"])
            for one in found
            if one["status"].get("phase") == "Running"
        ]

    async def _claim(self, claim: Json) -> None:
        metadata, size = claim["metadata"], claim["spec"]["resources"]["requests"]["storage"]
        where = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
        volume = f"pv-{metadata['uid']}"
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        reference |= {key: metadata[key] for key in ("namespace", "name", "uid")}
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": reference,
            "csi": {"driver": "bench", "volumeHandle": volume},
        }
        with contextlib.suppress(Refused):  # made by an earlier look that did not come to its end
            await self._api.call(
                "POST",
                "/api/v1/persistentvolumes",
                {"kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec},
            )
        await self._api.call("PATCH", where, {"spec": {"volumeName": volume}})
        bound = {"phase": "Bound", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
        await self._api.call("PATCH", f"{where}/status", {"status": bound})

    async def _pod(self, pod: Json) -> None:
        metadata, now = pod["metadata"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        where = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        number = self._given.setdefault(metadata["namespace"], 0) + 1
        self._given[metadata["namespace"]] = number
        if not pod["spec"].get("nodeName"):
            target = {"kind": "Node", "name": f"node-{number % NODES}"}
            await self._api.call(
                "POST",
                f"{where}/binding",
                {"kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target},
            )
        ip = f"127.9.{self._numbers[metadata['namespace']]}.{number}"
        container = {
            "name": names.CONTAINER,
            "ready": True,
            "started": True,
            "restartCount": 0,
            "image": "bookie:bench",
            "imageID": "",
            "state": {"running": {"startedAt": now}},
        }
        status = {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [
                {"type": one, "status": "True", "lastTransitionTime": now} for one in ("Ready", "PodScheduled")
            ],
            "containerStatuses": [container],
        }
        await self._api.call("PATCH", f"{where}/status", {"status": status})


def _waits(claim: Json) -> bool:
    return claim["status"].get("phase") != "Bound" and "deletionTimestamp" not in claim["metadata"]


def _node_info() -> dict[str, str]:
    empty = ("kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion")
    more = ("operatingSystem", "architecture", "machineID", "systemUUID")
    return dict.fromkeys((*empty, *more), "") | {"bootID": "one"}


@dataclass(frozen=True, slots=True)
class Scrape:
    """The operator's own figures at one moment."""

    at_s: float
    calls: Counter[tuple[str, str]]  # by verb and kind
    buckets: dict[float, float]  # passes by their seconds, cumulative
    passes: float
    glances: float
    errors: float

    @staticmethod
    async def of(port: int) -> Scrape:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            text = await answer.text()
        calls: Counter[tuple[str, str]] = Counter()
        buckets = {}
        single = {}
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            labels = dict(re.findall(r'(\w+)="([^"]*)"', name))
            if name.startswith("bookie_operator_api_requests_total"):
                calls[labels["verb"], labels["kind"]] += int(float(value))
            elif name.startswith("bookie_operator_pass_seconds_bucket"):
                buckets[float(labels["le"])] = float(value)
            elif name.startswith("bookie_operator_") and not labels:
                single[name] = float(value)
        return Scrape(
            time.monotonic(),
            calls,
            buckets,
            *(single[f"bookie_operator_{name}"] for name in ("passes", "glances", "pass_errors")),
        )

    def quantile_since(self, before: Scrape, wanted: float) -> float:
        """Return the seconds of a pass at this quantile, read from the histogram as Prometheus does."""
        counts = {bound: count - before.buckets.get(bound, 0.0) for bound, count in sorted(self.buckets.items())}
        target, low, below = wanted * max(counts.values()), 0.0, 0.0
        for bound, count in counts.items():
            if count >= target and count > below:
                return low if bound == float("inf") else low + (bound - low) * (target - below) / (count - below)
            low, below = bound, count
        return low


def memory_mib(pid: int) -> tuple[float, float]:
    """Return what a process has in memory now, and had at most."""
    found = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8")))
    return int(found["VmRSS"]) / 1024, int(found["VmHWM"]) / 1024


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def run(args: argparse.Namespace, folder: Path) -> Json:
    """Build everything, measure, and take it down."""
    namespaces = [f"fleet-{number:02}" for number in range(args.clusters)]
    with control_plane(folder) as (port, kubeconfig):
        async with Api(port) as api:
            await until("the API server", lambda: api.call("GET", "/readyz"), timeout_s=180)
            kube_talk.say("API server is ready")
            for path in sorted((ROOT / "crds").glob("*.yaml")):
                crd = yaml.safe_load(path.read_text())
                await api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
            of_kind = f"/apis/{names.API_VERSION}/{names.PLURAL}"
            await until("the CRDs", lambda: api.call("GET", of_kind), timeout_s=60)
            for name in (SYSTEM, *namespaces):
                await api.call("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": name}})
            machines = Machines(api, namespaces)
            await machines.nodes()
            http_port = port_support.free_port()
            command = [sys.executable, "-m", "bookie_operator", "run", f"--namespace={SYSTEM}"]
            command += [f"--kubeconfig={kubeconfig}", f"--http-port={http_port}", "--image=bookie:bench"]
            async with Operator(folder, command) as operator:
                with controllers(folder):
                    return await measure(args, api, machines, namespaces, operator, http_port)


def chart_environment() -> dict[str, str]:
    """Return how the chart has the operator's memory allocated."""
    found = dict(re.findall(r'- \{name: (MALLOC_\w+), value: "(\d+)"\}', DEPLOYMENT.read_text()))
    assert found, DEPLOYMENT
    return found


class Operator:
    """The operator's process, started again when it ends, as a kubelet would: one that cannot renew its lease in time,
    which happens on a machine that is busy with other things, ends by itself."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._folder = folder
        self._command = command
        self.pid = 0
        self.starts = 0

    async def __aenter__(self) -> Operator:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            self.starts += 1
            env = chart_environment() | {"POD_NAME": "bench", "POD_UID": str(self.starts)}
            with process(self._folder, f"operator-{self.starts}", *self._command, env=env) as child:
                self.pid = child.pid
                while child.poll() is None:  # noqa: ASYNC110 - a child tells nobody
                    await asyncio.sleep(0.5)
            await asyncio.sleep(1)


async def measure(
    args: argparse.Namespace, api: Api, machines: Machines, namespaces: list[str], operator: Operator, http_port: int
) -> Json:
    of_kind = f"/apis/{names.API_VERSION}/{names.PLURAL}"
    began_s = time.monotonic()
    for namespace in namespaces:
        spec = make.spec(
            replicas=args.bookies,
            metadataService={
                "uri": "zk+hierarchical://zookeeper:2181/ledgers",
                "initialize": "Never",
                "expectedInstanceId": namespace,
            },
        )
        manifest = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": CLUSTER}, "spec": spec}
        await api.call("POST", f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}", manifest)
    expected = args.clusters * args.bookies
    running: list[Fake] = []

    async def all_run() -> bool:
        running[:] = await machines.look()
        kube_talk.say(f"{len(running)} of {expected} pods run, {time.monotonic() - began_s:.0f} s")
        return len(running) == expected

    await until("all pods", all_run, timeout_s=READY_TIMEOUT_S)
    pods_s = time.monotonic() - began_s
    fakes = {name: tuple(one for one in running if one.namespace == name) for name in namespaces}
    files = {}
    for name in namespaces:
        secret = await api.call("GET", f"/api/v1/namespaces/{name}/secrets/{names.ADMIN_CERTIFICATES}")
        data = {key.removeprefix(f"{CLUSTER}."): base64.b64decode(value) for key, value in secret["data"].items()}
        files[name] = data
    async with bookies(fakes, files) as asked:

        async def all_ready() -> bool:
            found = await api.items(of_kind)
            ready = sum(
                any(
                    one["type"] == "Ready" and one["status"] == "True"
                    for one in item.get("status", {}).get("conditions", ())
                )
                for item in found
            )
            kube_talk.say(f"{ready} of {args.clusters} fleets are ready, {time.monotonic() - began_s:.0f} s")
            return ready == args.clusters

        await until("all fleets", all_ready, timeout_s=READY_TIMEOUT_S, pause_s=2.0)
        ready_s = time.monotonic() - began_s
        first = await Scrape.of(http_port)

        async def at_rest() -> bool:
            """Everybody rests when half a minute has brought a glance of each and hardly a call."""
            before = await Scrape.of(http_port)
            await asyncio.sleep(35)
            after = await Scrape.of(http_port)
            calls = (after.calls - before.calls).total() / 35
            kube_talk.say(f"{calls:.1f} calls a second, {after.glances - before.glances:.0f} glances")
            return after.glances - before.glances >= args.clusters * 0.8

        await until("rest", at_rest, timeout_s=READY_TIMEOUT_S)
        asked.clear()
        pid, starts = operator.pid, operator.starts
        before, cpu_before = await Scrape.of(http_port), cpu_s(pid)
        await asyncio.sleep(args.seconds)
        if operator.starts != starts:
            raise Refused("the operator ended while the fleets were at rest: the machine is too busy to measure it")
        after, cpu_after = await Scrape.of(http_port), cpu_s(pid)
        seconds, calls = after.at_s - before.at_s, after.calls - before.calls
        of_bookies = dict(asked)
        now_mib, most_mib = memory_mib(pid)
        edits = [await edited(api, one) for one in namespaces[:5]]
        drifts = [await repaired(api, one) for one in namespaces[5:10]]
    return {
        "clusters": args.clusters,
        "bookies": args.bookies,
        "load": os.getloadavg()[0],
        "pods_s": pods_s,
        "ready_s": ready_s,
        "building_pass_p50_s": first.quantile_since(replace(first, buckets={}), 0.5),
        "building_pass_p99_s": first.quantile_since(replace(first, buckets={}), 0.99),
        "idle_s": seconds,
        "idle_calls_per_s": calls.total() / seconds,
        "idle_calls": {f"{verb} {kind}": count for (verb, kind), count in calls.most_common()},
        "idle_pass_p50_s": after.quantile_since(before, 0.5),
        "idle_pass_p99_s": after.quantile_since(before, 0.99),
        "idle_passes": after.passes - before.passes,
        "idle_glances": after.glances - before.glances,
        "idle_cpu_percent": 100 * (cpu_after - cpu_before) / seconds,
        "idle_bookie_calls_per_s": {name: count / seconds for name, count in of_bookies.items()},
        "operator_starts": operator.starts,
        "errors": after.errors,
        "rss_mib": now_mib,
        "rss_most_mib": most_mib,
        "edit_seen_s": statistics.median(edits),
        "edit_seen_most_s": max(edits),
        "drift_mended_s": statistics.median(drifts) if drifts else None,
        "drift_mended_most_s": max(drifts, default=None),
    }


async def edited(api: Api, namespace: str) -> float:
    """Return the seconds from an edit of the spec to the status that says so."""
    path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}/{CLUSTER}"
    began_s = time.monotonic()
    changed = await api.call("PATCH", path, {"spec": {"repair": {"stabilization": "7s"}}})

    async def is_seen() -> bool:
        found = await api.call("GET", path)
        return bool(found["status"].get("observedGeneration") == changed["metadata"]["generation"])

    await until("the edit", is_seen, timeout_s=60, pause_s=0.02)
    return time.monotonic() - began_s


async def repaired(api: Api, namespace: str) -> float:
    """Return the seconds from the deletion of the bookies' Service until it is there again."""
    path = f"/api/v1/namespaces/{namespace}/services"
    name = (await api.items(path))[0]["metadata"]["name"]
    began_s = time.monotonic()
    await api.call("DELETE", f"{path}/{name}")
    await until("the Service", lambda: api.call("GET", f"{path}/{name}"), timeout_s=60, pause_s=0.02)
    return time.monotonic() - began_s


def table(found: Json) -> str:
    """Return `found` as the lines of a table in Markdown."""
    by_call = ", ".join(f"{name} {count}" for name, count in list(found["idle_calls"].items())[:8])
    of_bookies = ", ".join(f"{name} {rate:.1f}" for name, rate in found["idle_bookie_calls_per_s"].items())
    rows = [
        ("from nothing to all pods running; to all fleets Ready", f"{found['pods_s']:.0f} s; {found['ready_s']:.0f} s"),
        ("a pass while it builds: p50, p99", _ms(found["building_pass_p50_s"], found["building_pass_p99_s"])),
        (
            f"a pass at rest: p50, p99 ({found['idle_passes']:.0f} passes)",
            _ms(found["idle_pass_p50_s"], found["idle_pass_p99_s"]),
        ),
        (f"calls to the API server a second, at rest ({found['idle_s']:.0f} s)", f"{found['idle_calls_per_s']:.1f}"),
        ("by verb and kind, in that time", by_call),
        ("calls to bookies a second, at rest", of_bookies),
        ("CPU of the operator at rest", f"{found['idle_cpu_percent']:.0f} % of a core"),
        ("memory of the operator: at rest, at most", f"{found['rss_mib']:.0f} MiB, {found['rss_most_mib']:.0f} MiB"),
        ("an edit is in the status: median, most", _ms(found["edit_seen_s"], found["edit_seen_most_s"])),
    ]
    if found["drift_mended_s"] is not None:
        rows.append(
            ("a deleted Service is back: median, most", _ms(found["drift_mended_s"], found["drift_mended_most_s"]))
        )
    head = f"{found['clusters']} fleets of {found['bookies']} bookies, load average {found['load']:.0f}"
    return "\n".join([f"| {head} | seen |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def _ms(one: float, other: float) -> str:
    return f"{one * 1000:.0f} ms, {other * 1000:.0f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--bookies", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=300.0, help="of rest; every fleet has a full look in 300")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", default="", metavar="FOLDER", help="where logs go, and stay")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(args.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-operator-")))
        folder.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(run(args, folder))
    print(json.dumps(found, indent=2) if args.json else table(found))
    is_full = (args.clusters, args.bookies) == (50, 12)
    is_good = found["idle_calls_per_s"] <= CALLS_A_SECOND_MAX and found["rss_most_mib"] < RSS_MAX_MIB
    is_good = is_good and found["idle_pass_p99_s"] <= PASS_P99_MAX_S
    return 0 if is_good or not is_full else 1


if __name__ == "__main__":
    sys.exit(main())
