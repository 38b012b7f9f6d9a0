"""The CRD before a real API server: its rules are accepted, refuse what they should with a sentence, and nothing else.

Everything but the one object that transition rules compare with is a server-side dry run.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import cluster_support
import kube_tools
from bookie_operator import app
from bookie_operator.gateways.kube import ApiServer, KubeError, Manifest
from bookie_operator.model import names

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "bookie-rules"
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[str]:
    """A cluster with the committed CRD, and a namespace that no operator watches."""
    path = cluster_support.kubeconfig_or_skip()
    kube_tools.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds" / "bookieclusters.yaml"))
    kube_tools.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{names.PLURAL}.{names.GROUP}")
    kube_tools.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    kube_tools.kubectl("create", "namespace", NAMESPACE)
    yield str(path)
    kube_tools.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def example() -> Manifest:
    """The example cluster, in our namespace."""
    manifest: Manifest = yaml.safe_load((ROOT / "examples" / "bookiecluster.yaml").read_text(encoding="utf-8"))
    manifest["metadata"]["namespace"] = NAMESPACE
    return manifest


@asynccontextmanager
async def server(kubeconfig: str) -> AsyncIterator[ApiServer]:
    async with ApiServer(await app.configuration(kubeconfig)) as api:
        yield api


def try_to_create(kubeconfig: str, manifest: Manifest) -> str:
    """ "" when the API server would take it, else its sentence."""

    async def ask() -> str:
        async with server(kubeconfig) as api:
            try:
                await api._ask("POST", names.KIND, NAMESPACE, "", query={"dryRun": "All"}, body=manifest)
            except KubeError as error:
                if not error.is_refusal:
                    raise
                return str(error)
            return ""

    return asyncio.run(ask())


def volumes(spec: dict[str, Any], role: str) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = spec["storage"].setdefault(role, {"volumes": []})["volumes"]
    return out


def go_over(spec: dict[str, Any], **first: Any) -> None:
    """From zones to pools; `first`: what the first pool says otherwise."""
    replicas = spec.pop("replicas")
    spec["pools"] = [{"name": one["name"], "zone": one["name"], "replicas": replicas} for one in spec.pop("zones")]
    spec["pools"][0] |= first


# (what is wrong, the edit that makes it wrong, words of the sentence, the edit that makes it right)
ON_CREATE: list[tuple[str, Edit, str, Edit]] = [
    (
        "fewer bookies than an ensemble",
        lambda spec: spec.update(replicas=3, quorum={"ensembleSize": 4, "writeQuorum": 3, "ackQuorum": 2}),
        "spec.replicas is less than spec.quorum.ensembleSize",
        lambda spec: spec.update(replicas=4),
    ),
    (
        "fewer bookies than zones",
        lambda spec: spec.update(replicas=3, zones=[{"name": f"z{n}"} for n in range(4)]),
        "spec.replicas is less than the number of spec.zones",
        lambda spec: spec.update(replicas=4),
    ),
    (
        "replicas and pools",
        lambda spec: (replicas := spec["replicas"], go_over(spec), spec.update(replicas=replicas)),
        "spec.replicas or spec.pools must be there",
        lambda spec: spec.pop("replicas"),
    ),
    (
        "two bookies on a node that nothing keeps apart",
        lambda spec: (go_over(spec, perNode=2, replicas=2), spec.update(placement={"antiAffinity": "Preferred"})),
        "spec.placement.antiAffinity is not Required",
        lambda spec: spec.update(placement={"antiAffinity": "Required"}),
    ),
    (
        "bookies that may all be on two nodes",
        lambda spec: (
            go_over(spec),
            spec["quorum"].update(ensembleSize=4),
            [pool.update(perNode=4, replicas=4) for pool in spec["pools"]],
            spec.update(placement={"antiAffinity": "Required"}),
        ),
        "copies of one entry share one",
        lambda spec: spec["pools"][0].update(perNode=2),
    ),
    (
        "pools over two zones and no journal",
        lambda spec: (go_over(spec), spec["pools"][2].update(zone="zone-a")),
        "spec.storage.journalWriteData: false over fewer than three",
        lambda spec: spec["pools"][2].update(zone="zone-c"),
    ),
    (
        "an index in a pool for some of its ledger volumes",
        lambda spec: go_over(
            spec,
            storage={
                "journal": {"volumes": [{"name": "j", "size": "1Gi"}]},
                "ledgers": {"volumes": [{"name": "l", "size": "1Gi"}, {"name": "m", "size": "1Gi"}]},
                "index": {"volumes": [{"name": "x", "size": "1Gi"}]},
            },
        ),
        "spec.pools[].storage.index.volumes must be as many",
        lambda spec: spec["pools"][0]["storage"].pop("index"),
    ),
    (
        "write quorum over ensemble",
        lambda spec: spec["quorum"].update(writeQuorum=4),
        "spec.quorum.writeQuorum",
        lambda spec: spec["quorum"].update(writeQuorum=3),
    ),
    (
        "ack quorum over write quorum",
        lambda spec: spec["quorum"].update(writeQuorum=2, ackQuorum=3),
        "spec.quorum.ackQuorum",
        lambda spec: spec["quorum"].update(ackQuorum=2),
    ),
    (
        "no journal over two zones",
        lambda spec: spec.update(zones=spec["zones"][:2]),
        "spec.storage.journalWriteData: false over fewer than three",
        lambda spec: spec["storage"].update(acknowledgeNoJournal="IAcceptLossOnCorrelatedPowerFailure"),
    ),
    (
        "more repairs at once than the ack quorum survives",
        lambda spec: spec["repair"].update(maxConcurrent=2),
        "spec.repair.maxConcurrent",
        lambda spec: spec["quorum"].update(ackQuorum=3),
    ),
    (
        "more disruption than the ack quorum survives",
        lambda spec: spec.update(disruption={"maxUnavailable": 2}),
        "spec.disruption.maxUnavailable",
        lambda spec: spec["quorum"].update(ackQuorum=3),
    ),
    (
        "a window that is too short for any bookie",
        lambda spec: spec.update(rollout={"windows": [{"schedule": "0 2 * * *", "duration": "5m"}]}),
        "spec.rollout.windows: a window is shorter",
        lambda spec: spec["rollout"].update(maxSecondsPerBookie=300),
    ),
    (
        "a window of more than a week",
        lambda spec: spec.update(rollout={"windows": [{"schedule": "0 2 * * *", "duration": "169h"}]}),
        "spec.rollout.windows: a window is longer",
        lambda spec: spec.pop("rollout"),
    ),
    (
        "regeneration without proof on a protected cluster",
        lambda spec: (spec["repair"].update(regeneration="BookieLocal"), spec["lifecycle"].pop("deletionProtection")),
        "spec.repair.regeneration: BookieLocal",
        lambda spec: spec["lifecycle"].update(deletionProtection=False),
    ),
    (
        "no time to flush",
        lambda spec: spec["lifecycle"].update(terminationGrace="30s"),
        "spec.lifecycle.terminationGrace is under 2m",
        lambda spec: spec["lifecycle"].update(terminationGrace="2m"),
    ),
    (
        "a key that the operator owns",
        lambda spec: spec.update(config={"journalDirectories": "/tmp"}),
        "spec.config sets a key",
        lambda spec: spec.update(config={"numAddWorkerThreads": "2"}),
    ),
    (
        "two indexes for three ledger volumes",
        lambda spec: (
            volumes(spec, "ledgers").extend([{"name": "l1", "size": "1Gi"}, {"name": "l2", "size": "1Gi"}]),
            volumes(spec, "index").append({"name": "i1", "size": "1Gi"}),
        ),
        "spec.storage.index.volumes must be none, or as many",
        lambda spec: volumes(spec, "index").append({"name": "i2", "size": "1Gi"}),
    ),
    (
        "one name in two roles",
        lambda spec: volumes(spec, "index")[0].update(name="journal"),
        "a volume name is used in two roles",
        lambda spec: volumes(spec, "index")[0].update(name="index"),
    ),
    (
        "one index for three ledger volumes",
        lambda spec: volumes(spec, "ledgers").extend([{"name": "l1", "size": "1Gi"}, {"name": "l2", "size": "1Gi"}]),
        "spec.storage.index.volumes must be none, or as many",
        lambda spec: volumes(spec, "index").clear(),
    ),
    (
        "the name of a volume of the operator's own",
        lambda spec: volumes(spec, "index")[0].update(name="bookie-tmp"),
        "a volume's name begins with bookie-",
        lambda spec: volumes(spec, "index")[0].update(name="index"),
    ),
    (
        "a family of addresses without a policy",
        lambda spec: spec.update(network={"ipFamilies": ["IPv6"]}),
        "spec.network.ipFamilies needs spec.network.ipFamilyPolicy",
        lambda spec: spec["network"].update(ipFamilyPolicy="SingleStack"),
    ),
    (
        "certificates of clients that nobody makes",
        lambda spec: spec.update(security={"tls": {"mode": "Permissive", "clientCertificates": True}}),
        "spec.security.tls.clientCertificates needs spec.security.tls.secretName",
        lambda spec: spec["security"]["tls"].update(secretName="bookies"),
    ),
    (
        "passwords without a Secret",
        lambda spec: spec.update(security={"authentication": {"mode": "Required"}}),
        "spec.security.authentication.secretName names no Secret",
        lambda spec: spec["security"]["authentication"].update(secretName="bookies"),
    ),
    (
        "a field of pods that is the operator's",
        lambda spec: spec.update(podTemplate={"spec": {"hostNetwork": True, "schedulerName": "x"}}),
        "spec.podTemplate.spec must have none of",
        lambda spec: spec["podTemplate"]["spec"].pop("hostNetwork"),
    ),
    (
        "a volume of the pod template under the operator's names",
        lambda spec: spec.update(podTemplate={"spec": {"volumes": [{"name": "bookie-x", "emptyDir": {}}]}}),
        "spec.podTemplate.spec.volumes: a name begins with bookie-",
        lambda spec: spec["podTemplate"]["spec"]["volumes"][0].update(name="x"),
    ),
    (
        "a label by which the operator knows its pods",
        lambda spec: spec.update(podTemplate={"metadata": {"labels": {"bookie.dev/pool": "x"}}}),
        "spec.podTemplate.metadata.labels: a name begins with bookie.dev/",
        lambda spec: spec.update(podTemplate={"metadata": {"labels": {"team": "x"}}}),
    ),
    (
        "one port twice",
        lambda spec: spec.update(network={"ports": {"admin": 3181}}),
        "spec.network.ports: data, admin, adminTls and metrics must be four different ports",
        lambda spec: spec.update(network={"ports": {"admin": 4182}}),
    ),
]


def test_the_example_is_taken(kubeconfig: str) -> None:
    assert try_to_create(kubeconfig, example()) == ""


@pytest.mark.parametrize(("wrong", "words", "right"), [row[1:] for row in ON_CREATE], ids=[row[0] for row in ON_CREATE])
def test_a_bad_cluster_is_refused_by_name_of_the_field_and_a_good_one_taken(
    kubeconfig: str, wrong: Edit, words: str, right: Edit
) -> None:
    manifest = example()

    wrong(manifest["spec"])
    refused = try_to_create(kubeconfig, manifest)
    right(manifest["spec"])
    taken = try_to_create(kubeconfig, manifest)

    assert words in refused
    assert taken == ""


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda spec: spec.pop("storage"), "spec.storage"),
        (lambda spec: spec.update(replicas=0), "spec.replicas"),
        (lambda spec: volumes(spec, "journal").clear(), "spec.storage.journal.volumes"),
        (lambda spec: spec["placement"].update(antiAffinity="Perhaps"), "spec.placement.antiAffinity"),
    ],
)
def test_a_value_of_the_wrong_shape_is_refused_by_name_of_the_field(kubeconfig: str, edit: Edit, words: str) -> None:
    manifest = example()
    edit(manifest["spec"])

    assert words in try_to_create(kubeconfig, manifest)


NO_AMOUNT = "is not an amount: write"
# (the edit, the words of the only sentence)
OF_WRONG_SHAPE: list[tuple[Edit, str]] = [
    (
        lambda spec: volumes(spec, "ledgers")[0].update(size="256MB"),
        f"spec.storage.ledgers.volumes[0].size: Invalid value: \"string\": '256MB' {NO_AMOUNT}",
    ),
    (lambda spec: spec.update(resources={"tmpSize": "2 GB"}), f"'2 GB' {NO_AMOUNT}"),
    (lambda spec: volumes(spec, "index")[0].update(size="1Gi\n"), f"it {NO_AMOUNT}"),
    (lambda spec: spec["repair"].update(stabilization="soon"), "'soon' is not a span of time: write"),
    (lambda spec: spec["lifecycle"].update(terminationGrace="5 m"), "'5 m' is not a span of time: write"),
    (
        lambda spec: spec.update(rollout={"windows": [{"schedule": "0 2 * * *", "duration": "1d"}]}),
        "'1d' is not a span of time: write",
    ),
    (
        lambda spec: spec.update(rollout={"windows": [{"schedule": "@daily", "duration": "1h"}]}),
        "'@daily' is not a schedule: write",
    ),
    (
        lambda spec: spec.update(
            rollout={"windows": [{"schedule": "0 2 * * *", "duration": "1h", "timeZone": "+01:00"}]}
        ),
        "'+01:00' is not the name of a time zone: write",
    ),
    (
        lambda spec: spec.update(rollout={"ignoreWindowsUntil": "tomorrow"}),
        "'tomorrow' is not a time of RFC 3339: write",
    ),
    (
        lambda spec: spec["metadataService"].update(uri="zookeeper:2181"),
        "'zookeeper:2181' is not where a metadata store is: write",
    ),
    (lambda spec: spec["zones"][0].update(name="zone_a"), "'zone_a' cannot be part of the names of pods: write"),
    (lambda spec: volumes(spec, "journal")[0].update(name="Upper"), "'Upper' cannot be the name of a claim"),
    (lambda spec: spec.update(network={"clusterDomain": "Cluster.Local"}), "'Cluster.Local' is not a domain: write"),
]


@pytest.mark.parametrize(("edit", "words"), OF_WRONG_SHAPE, ids=[words for _, words in OF_WRONG_SHAPE])
def test_a_text_of_the_wrong_shape_gets_one_sentence_that_says_what_to_write(
    kubeconfig: str, edit: Edit, words: str
) -> None:
    manifest = example()
    edit(manifest["spec"])

    refused = try_to_create(kubeconfig, manifest)

    assert words in refused
    assert "evaluating rule" not in refused, "no other rule breaks over what is no amount, time or URI"


# Where amounts of a container stand: those of all bookies, of a pool's, of auto-recovery.
CONTAINERS: list[Callable[[dict[str, Any], dict[str, Any]], object]] = [
    lambda spec, resources: spec.update(resources=resources),
    lambda spec, resources: go_over(spec, resources=resources),
    lambda spec, resources: spec.update(autorecovery={"enabled": True, "resources": resources}),
]


@pytest.mark.parametrize("put", CONTAINERS, ids=["bookies", "pool", "auto-recovery"])
@pytest.mark.parametrize("which", ["requests", "limits"])
def test_an_amount_of_a_container_is_a_number_or_a_text_and_nothing_else(
    kubeconfig: str, put: Callable[[dict[str, Any], dict[str, Any]], object], which: str
) -> None:
    def answer(said: object) -> str:
        manifest = example()
        put(manifest["spec"], {which: {"cpu": said}})
        return try_to_create(kubeconfig, manifest)

    assert [answer(one) for one in (2, 0, "2", "500m", "1.5")] == [""] * 5
    for said in ("two", "2 GB", "1e3", "-1", "", "2\n", "9" * 33, -1, 0.5, True, [2], {"a": 2}):
        assert f"resources.{which}.cpu" in answer(said), said


def test_a_name_too_long_for_labels_is_refused(kubeconfig: str) -> None:
    manifest = example()
    manifest["metadata"]["name"] = "l" * 31

    assert "metadata.name is longer than 30" in try_to_create(kubeconfig, manifest)


@pytest.mark.parametrize("name", ["1ledgers", "my.ledgers", "0"])
def test_a_name_that_cannot_become_a_service_is_refused(kubeconfig: str, name: str) -> None:
    manifest = example()
    manifest["metadata"]["name"] = name

    assert "metadata.name cannot become the name of a Service" in try_to_create(kubeconfig, manifest)


@pytest.fixture(scope="module")
def stored(kubeconfig: str) -> Manifest:
    """A cluster that exists: what transition rules compare with."""

    async def create() -> Manifest:
        async with server(kubeconfig) as api:
            return await api.create(example())

    return asyncio.run(create())


def try_to_change(kubeconfig: str, manifest: Manifest) -> str:
    async def ask() -> str:
        async with server(kubeconfig) as api:
            name = manifest["metadata"]["name"]
            try:
                await api._ask("PUT", names.KIND, NAMESPACE, name, query={"dryRun": "All"}, body=manifest)
            except KubeError as error:
                if not error.is_refusal:
                    raise
                return str(error)
            return ""

    return asyncio.run(ask())


ON_CHANGE: list[tuple[str, Edit, str]] = [
    ("no zones", lambda spec: (spec.pop("zones"), spec["storage"].update(journalWriteData=True)), "spec.zones cannot"),
    ("another zone", lambda spec: spec["zones"][0].update(name="zone-x"), "spec.zones may get further zones"),
    ("a zone that gets no pool", lambda spec: (go_over(spec), spec["pools"].pop()), "spec.pools must begin with one"),
    ("a zone whose pool has another name", lambda spec: go_over(spec, name="big"), "spec.pools must begin with one"),
    (
        "journal and image at once",
        lambda spec: (spec["storage"].update(journalWriteData=True), spec.update(image="bookie:other")),
        "changed in one edit",
    ),
    (
        "another ledgers path",
        lambda spec: spec["metadataService"].update(uri="zk+hierarchical://zookeeper:2181/other"),
        "spec.metadataService.uri may change its hosts only",
    ),
    (
        "another scheme",
        lambda spec: spec["metadataService"].update(uri="zk://zookeeper:2181/ledgers"),
        "spec.metadataService.uri may change its hosts only",
    ),
    ("a smaller volume", lambda spec: volumes(spec, "ledgers")[0].update(size="1000Mi"), "a size cannot be lowered"),
    ("another class", lambda spec: volumes(spec, "journal")[0].update(storageClassName="x"), "spec.storage.journal"),
    ("one volume more", lambda spec: volumes(spec, "journal").append({"name": "j", "size": "1Gi"}), "spec.storage.j"),
    ("no index volume", lambda spec: volumes(spec, "index").clear(), "spec.storage.index.volumes cannot change"),
    ("another kind", lambda spec: volumes(spec, "index")[0].update(kind="LocalDisk"), "spec.storage.index.volumes"),
    (
        "TLS for everybody at once",
        lambda spec: spec.update(security={"tls": {"mode": "Required", "secretName": "bookies"}}),
        "spec.security.tls.mode changes between Disabled and Required in one step",
    ),
    (
        "passwords for everybody at once",
        lambda spec: spec.update(security={"authentication": {"mode": "Required", "secretName": "bookies"}}),
        "spec.security.authentication.mode changes between Disabled and Required",
    ),
    ("another data port", lambda spec: spec["network"]["ports"].update(data=4181), "spec.network.ports.data"),
]


@pytest.mark.parametrize(("edit", "words"), [row[1:] for row in ON_CHANGE], ids=[row[0] for row in ON_CHANGE])
def test_what_may_not_change_is_refused(kubeconfig: str, stored: Manifest, edit: Edit, words: str) -> None:
    manifest = copy.deepcopy(stored)
    edit(manifest["spec"])

    assert words in try_to_change(kubeconfig, manifest)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda spec: volumes(spec, "ledgers")[0].update(size="3TB"), "'3TB' is not an amount: write"),
        (lambda spec: spec["metadataService"].update(uri="zookeeper"), "'zookeeper' is not where a metadata store is"),
        (lambda spec: spec["lifecycle"].update(terminationGrace="soon"), "'soon' is not a span of time: write"),
    ],
    ids=["size", "uri", "grace"],
)
def test_a_text_of_the_wrong_shape_breaks_no_rule_that_looks_at_both(
    kubeconfig: str, stored: Manifest, edit: Edit, words: str
) -> None:
    manifest = copy.deepcopy(stored)
    edit(manifest["spec"])

    refused = try_to_change(kubeconfig, manifest)

    assert words in refused
    assert "evaluating rule" not in refused


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: spec.update(replicas=5),
        lambda spec: (spec.update(replicas=5), spec["zones"].append({"name": "zone-d"})),
        go_over,
        lambda spec: spec.update(image="bookie:other"),
        lambda spec: spec["storage"].update(journalWriteData=True),
        lambda spec: spec["metadataService"].update(uri="zk+hierarchical://a:2181;b:2181/ledgers"),
        lambda spec: spec["metadataService"].update(initialize="Never"),
        lambda spec: spec["metadataService"].update(expectedInstanceId="precious"),
        lambda spec: spec["network"]["ports"].update(metrics=9200),
        lambda spec: volumes(spec, "index")[0].update(kind="Claim"),
        lambda spec: spec.update(security={"tls": {"mode": "Permissive", "secretName": "bookies"}}),
        lambda spec: volumes(spec, "ledgers")[0].update(size="3000Gi"),
    ],
    ids=[
        "more bookies",
        "one more zone",
        "pools for zones",
        "image",
        "journal",
        "hosts",
        "never again",
        "pin",
        "metrics port",
        "the default said aloud",
        "TLS",
        "a bigger volume",
    ],
)
def test_what_may_change_is_taken(kubeconfig: str, stored: Manifest, edit: Edit) -> None:
    manifest = copy.deepcopy(stored)
    edit(manifest["spec"])

    assert try_to_change(kubeconfig, manifest) == ""


ORDER = "the order of volumes cannot change"
CHANGED = "spec.storage.ledgers.volumes"


def of_two(kubeconfig: str, name: str, status: dict[str, Any] | None = None, *, pool: bool = False) -> Manifest:
    """A cluster, made with two ledger volumes and their indexes, in a pool or for all; `status`: as it came to be."""
    manifest = example()
    manifest["metadata"]["name"] = name
    storage = manifest["spec"]["storage"]
    for role in ("ledgers", "index"):
        volumes(manifest["spec"], role).append(volumes(manifest["spec"], role)[0] | {"name": f"{role}-2"})
    if pool:
        go_over(manifest["spec"], storage={role: storage[role] for role in ("journal", "ledgers", "index")})

    async def create() -> Manifest:
        async with server(kubeconfig) as api:
            made = await api.create(manifest)
            body = made | {"status": status or {}}
            found = await api._ask("PUT", names.KIND, NAMESPACE, name, subresource="status", body=body)
            assert found is not None
            return found

    return asyncio.run(create())


@pytest.mark.parametrize("role", ["ledgers", "index"])
def test_volumes_keep_their_order(kubeconfig: str, role: str) -> None:
    of_all, of_pool = of_two(kubeconfig, f"all-{role}"), of_two(kubeconfig, f"pool-{role}", pool=True)
    volumes(of_all["spec"], role).reverse()
    volumes(of_pool["spec"]["pools"][0], role).reverse()

    assert f"spec.storage.{role}.volumes: {ORDER}" in try_to_change(kubeconfig, of_all)
    assert f"spec.pools[].storage.{role}.volumes: {ORDER}" in try_to_change(kubeconfig, of_pool)


@pytest.mark.parametrize("pool", [False, True], ids=["all", "pool"])
@pytest.mark.parametrize(
    ("case", "status", "is_taken"),
    [
        ("waits", {"rollout": {"inputs": "v1-0", "desired": 3, "updated": 0, "changed": [CHANGED]}}, True),
        ("held", {"heldBookies": 1}, True),
        ("other", {"rollout": {"inputs": "v1-0", "desired": 3, "updated": 0, "changed": ["spec.image"]}}, False),
    ],
)
def test_an_order_that_was_exchanged_before_is_put_back(
    kubeconfig: str, case: str, status: dict[str, Any], is_taken: bool, pool: bool
) -> None:
    """Releases before took such an edit; it is under way then, and nobody may be caught in it."""
    manifest = of_two(kubeconfig, f"{case}-{'pool' if pool else 'all'}", status, pool=pool)
    of = manifest["spec"]["pools"][0] if pool else manifest["spec"]

    volumes(of, "ledgers").reverse()

    told = try_to_change(kubeconfig, manifest)
    assert told == "" if is_taken else ORDER in told


def add(spec: dict[str, Any], *, at: int = 2, is_said: bool = True) -> None:
    """One ledger volume more, with its index."""
    for role in ("ledgers", "index"):
        one = volumes(spec, role)[0] | {"name": f"{role}-3"} | ({"added": True} if is_said else {})
        volumes(spec, role).insert(at, one)


ON_ADDING: list[tuple[str, Edit, str]] = [
    ("at the end", add, ""),
    ("not said to be added", lambda spec: add(spec, is_said=False), "added at the end with `added: true`"),
    ("in the middle", lambda spec: add(spec, at=1), ORDER),
    (
        "and another order",
        lambda spec: (add(spec), volumes(spec, "ledgers").insert(0, volumes(spec, "ledgers").pop(1))),
        ORDER,
    ),
    ("without its index", lambda spec: (add(spec), volumes(spec, "index").pop()), "index.volumes must be"),
    (
        "a journal",
        lambda spec: volumes(spec, "journal").append({"name": "j", "size": "1Gi", "added": True}),
        "further ledger and index volumes only",
    ),
]


@pytest.mark.parametrize("pool", [False, True], ids=["all", "pool"])
@pytest.mark.parametrize(("edit", "words"), [row[1:] for row in ON_ADDING], ids=[row[0] for row in ON_ADDING])
def test_ledger_volumes_are_added_at_the_end_alone(kubeconfig: str, edit: Edit, words: str, pool: bool) -> None:
    number = [row[1] for row in ON_ADDING].index(edit)
    manifest = of_two(kubeconfig, f"adding-{number}-{'pool' if pool else 'all'}", pool=pool)
    edit(manifest["spec"]["pools"][0] if pool else manifest["spec"])

    told = try_to_change(kubeconfig, manifest)

    assert told == "" if not words else words in told


@pytest.mark.parametrize("pool", [False, True], ids=["all", "pool"])
def test_an_added_volume_is_taken_back_while_no_bookie_has_it_and_stays_what_it_is(kubeconfig: str, pool: bool) -> None:
    async def store(manifest: Manifest, subresource: str = "") -> Manifest:
        name = manifest["metadata"]["name"]
        async with server(kubeconfig) as api:
            found = await api._ask("PUT", names.KIND, NAMESPACE, name, subresource=subresource, body=manifest)
            assert found is not None
            return found

    def of(manifest: Manifest) -> dict[str, Any]:
        found: dict[str, Any] = manifest["spec"]["pools"][0] if pool else manifest["spec"]
        return found

    before = of_two(kubeconfig, f"back-{'pool' if pool else 'all'}", pool=pool)
    add(of(before))
    grown = asyncio.run(store(before))
    back, unsaid = copy.deepcopy(grown), copy.deepcopy(grown)
    for role in ("ledgers", "index"):
        volumes(of(back), role).pop()
        del volumes(of(unsaid), role)[-1]["added"]

    free = try_to_change(kubeconfig, back)
    changed = try_to_change(kubeconfig, unsaid)
    grown["status"] = {"addedVolumes": ["index-3", "ledgers-3"]}
    told = asyncio.run(store(grown, "status"))
    back["metadata"] = told["metadata"]
    taken = try_to_change(kubeconfig, back)

    assert free == ""
    assert "added at the end with `added: true`" in changed
    assert "cannot be taken back any more" in taken


def test_initialisation_cannot_be_switched_on_later_nor_a_pinned_instance_changed(kubeconfig: str) -> None:
    async def create() -> Manifest:
        manifest = example()
        manifest["metadata"]["name"] = "pinned"
        manifest["spec"]["metadataService"] |= {"initialize": "Never", "expectedInstanceId": "precious"}
        async with server(kubeconfig) as api:
            return await api.create(manifest)

    pinned = asyncio.run(create())
    initialize, other = copy.deepcopy(pinned), copy.deepcopy(pinned)
    initialize["spec"]["metadataService"]["initialize"] = "IfAbsent"
    other["spec"]["metadataService"]["expectedInstanceId"] = "other"

    assert "cannot be switched to IfAbsent later" in try_to_change(kubeconfig, initialize)
    assert "expectedInstanceId cannot change" in try_to_change(kubeconfig, other)
