"""Java's admin paths about the cluster, against a metadata store in which a cluster lives."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import underreplicated_support
from bookie.base.ids import BookieId, LedgerId
from bookie.client import DigestType, cluster
from bookie.client.ledgers import LedgerStore
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.metadata import paths, registration, repair
from bookie.metadata.ledger import new_ledger
from bookie.ports.http import HttpAnswer, HttpRequest
from bookie.ports.metadata_store import MetadataStore
from bookie.server.cluster_paths import LEDGERS_PER_PAGE, ClusterPaths
from bookie.server.http_paths import HttpPaths
from sim_support import Machine
from story_support import story

URI = "zk+hierarchical://zk:2181/ledgers"
ROOT = "/ledgers"
Ask = Callable[..., Awaitable[HttpAnswer]]


def tell(story: Callable[[MetadataStore, Ask], Awaitable[None]]) -> None:
    """Run `story` with a cluster and a way to ask about it."""
    machine = Machine(1)

    async def whole() -> None:
        world = machine.begin(name="bk")
        store = await world.metadata_stores.connect(URI)
        await cluster.format_cluster(store, URI, world.entropy)

        async def session() -> MetadataStore:
            return store

        async def metrics(request: HttpRequest) -> HttpAnswer:
            return HttpAnswer(200)

        http = HttpPaths(None, metrics, {}, more=ClusterPaths(session, URI).answers)  # type: ignore[arg-type]

        async def ask(method: str, path: str, body: bytes = b"", *, local: bool = True, **query: str) -> HttpAnswer:
            return await http.answer(HttpRequest(method, f"/api/v1/{path}", query, body, "local" if local else ""))

        await story(store, ask)
        await store.close()

    machine.run(whole)


def said(answer: HttpAnswer) -> Any:
    assert answer.status == 200, answer
    return json.loads(answer.body)


async def make_ledgers(store: MetadataStore, count: int) -> None:
    ledgers = LedgerStore(store, ROOT)
    for number in range(count):
        metadata = new_ledger(
            ensemble_size=2,
            write_quorum=2,
            ack_quorum=1,
            bookies=(BookieId("b0"), BookieId("b1")),
            digest_type=DigestType.HMAC,
            password=b"never shown",
            custom=(("app", b"me"),),
        )
        if number % 2:
            metadata = metadata.closed(LedgerId(6), 70)  # type: ignore[arg-type]
        await ledgers.create(metadata, LedgerId(number))


@story(tell)
async def test_ledgers_are_listed_and_shown_as_java_shows_them_but_for_the_password(
    store: MetadataStore, ask: Ask
) -> None:
    await make_ledgers(store, 3)

    assert said(await ask("GET", "ledger/list")) == {"0": None, "1": None, "2": None}
    shown = said(await ask("GET", "ledger/metadata", ledger_id="1"))["1"]
    assert (shown["state"], shown["closed"], shown["lastEntryId"], shown["length"]) == ("CLOSED", True, 6, 70)
    assert (shown["ensembleSize"], shown["writeQuorumSize"], shown["ackQuorumSize"]) == (2, 2, 1)
    assert shown["allEnsembles"] == {"0": [{"id": "b0"}, {"id": "b1"}]}
    assert (shown["digestType"], shown["customMetadata"]) == ("MAC", {"app": "bWU="})
    whole = await ask("GET", "ledger/list", print_metadata="true")
    assert said(whole)["1"] == shown
    assert b"never" not in whole.body
    assert b"bmV2ZXI" not in whole.body  # nor in base64
    assert (await ask("GET", "ledger/metadata", ledger_id="7")).status == 404
    assert (await ask("GET", "ledger/metadata", ledger_id="x")).status == 400
    assert (await ask("GET", "ledger/metadata")).status == 400


@story(tell)
async def test_a_long_list_comes_in_pages_and_a_bad_record_is_told_in_its_place(store: MetadataStore, ask: Ask) -> None:
    await make_ledgers(store, LEDGERS_PER_PAGE + 20)
    await store.put(paths.ledger_path(ROOT, LedgerId(3)), b"nonsense", -1)

    pages = [said(await ask("GET", "ledger/list", print_metadata="true", page=str(number))) for number in (1, 2, 3)]

    assert [len(page) for page in pages] == [LEDGERS_PER_PAGE, 20, 0]
    assert next(iter(pages[1])) == str(LEDGERS_PER_PAGE)
    assert "not ledger metadata" in pages[0]["3"]["problem"]
    assert (await ask("GET", "ledger/list", print_metadata="true", page="0")).status == 400
    assert (await ask("GET", "ledger/list", print_metadata="true", page="x")).status == 400


@story(tell)
async def test_bookies_are_listed_by_their_mode_and_counted(store: MetadataStore, ask: Ask) -> None:
    record = registration.dump_service_info(registration.bookie_service("host-0", 3181, ()))
    await store.create(f"{paths.available(ROOT)}/b0", record)
    await store.create(f"{paths.readonly(ROOT)}/b1", b"")
    for name in ("b0", "b1", "b2"):
        await store.create(paths.cookie(ROOT, BookieId(name)), b"cookie", parents=True)

    assert said(await ask("GET", "bookie/list_bookies")) == {"b0": None}
    assert said(await ask("GET", "bookie/list_bookies", print_hostnames="true")) == {"b0": "host-0"}
    assert said(await ask("GET", "bookie/list_bookies", type="ro")) == {"b1": None}
    info = said(await ask("GET", "bookie/cluster_info"))
    assert {name: info[name] for name in info if name.endswith("Count")} == {
        "totalBookiesCount": 3,
        "writableBookiesCount": 1,
        "readonlyBookiesCount": 1,
        "unavailableBookiesCount": 1,
    }
    assert (info["auditorElected"], info["ledgerReplicationEnabled"]) == (False, True)


@story(tell)
async def test_auto_recovery_is_seen_and_switched_by_this_machine_only(store: MetadataStore, ask: Ask) -> None:
    recovery = AutoRecovery(store, ROOT)

    assert said(await ask("GET", "autorecovery/status")) == {"enabled": True}
    assert (await ask("PUT", "autorecovery/status", enabled="false", local=False)).status == 403
    assert said(await ask("PUT", "autorecovery/status", enabled="false")) == {"enabled": False}
    assert not await recovery.is_enabled()
    assert said(await ask("PUT", "autorecovery/status", enabled="TRUE")) == {"enabled": True}
    assert (await ask("PUT", "autorecovery/status", enabled="maybe")).status == 400
    assert (await ask("GET", "autorecovery/who_is_auditor")).status == 404
    assert (await ask("PUT", "autorecovery/trigger_audit")).status == 404  # as Java: nobody would hear it
    vote = f"{paths.auditor_votes(ROOT)}/V_0000000001"
    await store.create(vote, repair.dump_lock("bk-9:3181"), ephemeral=True, parents=True)
    assert (await ask("GET", "autorecovery/who_is_auditor")).body == b"Auditor: bk-9:3181\n"
    assert (await ask("PUT", "autorecovery/trigger_audit")).status == 200


@story(tell)
async def test_the_delay_is_told_and_set(store: MetadataStore, ask: Ask) -> None:
    path = "autorecovery/lost_bookie_recovery_delay"

    assert (await ask("GET", path)).status == 404
    assert (await ask("PUT", path, b'{"delay_seconds": 90}')).status == 200
    assert (await ask("GET", path)).body == b"lostBookieRecoveryDelay value: 90\n"
    for body in (b"", b"[]", b'{"delay_seconds": "1"}', b'{"delay_seconds": true}', b'{"delay_seconds": -1}'):
        assert (await ask("PUT", path, body)).status == 400
    assert await AutoRecovery(store, ROOT).delay_s() == 90


@story(tell)
async def test_ledgers_that_lack_replicas_are_listed_by_whom_they_miss(store: MetadataStore, ask: Ask) -> None:
    path = "autorecovery/list_under_replicated_ledger"
    assert (await ask("GET", path)).status == 404  # as Java says that there are none
    for number, missing in ((5, ("b0",)), (6, ("b0", "b1")), (7, ("b2",))):
        mark = underreplicated_support.mark(missing)
        await store.create(underreplicated_support.path(ROOT, number), mark, parents=True)

    assert said(await ask("GET", path)) == [5, 6, 7]
    assert said(await ask("GET", path, missingreplica="b0")) == [5, 6]
    assert said(await ask("GET", path, missingreplica="b0", excludingmissingreplica="b1")) == [5]
    assert said(await ask("GET", path, printmissingreplica="true"))["6"] == ["b0", "b1"]
