"""The lease: one holder, numbered terms, and no action on a lease that may be somebody else's."""

import asyncio
from typing import Any

import pytest

from bookie_operator import options
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.lease import LeaderLease


class Api:
    """One Lease object with a resourceVersion, and failures on request."""

    def __init__(self) -> None:
        self.stored: Manifest | None = None
        self.version = 0
        self.is_down = False

    def _check(self) -> None:
        if self.is_down:
            raise KubeError("lease", 0, "the API server cannot be reached")

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        self._check()
        return None if self.stored is None else {**self.stored}

    async def create(self, manifest: Manifest) -> Manifest:
        self._check()
        if self.stored is not None:
            raise KubeError("create", 409, "exists")
        return self._store(manifest)

    async def replace(self, manifest: Manifest) -> Manifest:
        self._check()
        if manifest["metadata"].get("resourceVersion") != str(self.version):
            raise KubeError("replace", 409, "moved")
        return self._store(manifest)

    def _store(self, manifest: Manifest) -> Manifest:
        self.version += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self.version)}
        self.stored = {**manifest, "metadata": metadata}
        return self.stored

    def spec(self) -> dict[str, Any]:
        assert self.stored is not None
        return dict(self.stored["spec"])

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        raise AssertionError

    async def apply(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        raise AssertionError


class Clock:
    """Loop time that the test moves. `asyncio.sleep(0)` keeps the order of tasks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr("bookie_operator.lease._now", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(options, "LEASE_RETRY_S", 0)
    monkeypatch.setattr(options, "LEASE_RENEW_S", 0)
    return Clock(monkeypatch)


def lease(api: Api, identity: str = "a") -> LeaderLease:
    return LeaderLease(api, "ns", "bookie-operator", identity)


def test_the_first_holder_has_term_one(clock: Clock) -> None:
    api = Api()
    one = lease(api)

    asyncio.run(one.acquire())

    assert (one.term().number, one.is_held()) == (1, True)
    assert (api.spec()["holderIdentity"], api.spec()["leaseTransitions"]) == ("a", 1)


def test_a_lease_that_is_not_renewed_is_not_held_before_anybody_else_may_take_it(clock: Clock) -> None:
    one = lease(Api())
    asyncio.run(one.acquire())

    clock.now += options.LEASE_GIVE_UP_S

    assert not one.is_held()
    assert options.LEASE_GIVE_UP_S < options.LEASE_DURATION_S


def test_another_holder_is_waited_for_as_long_as_its_lease_lasts(clock: Clock) -> None:
    api = Api()
    first, second = lease(api, "a"), lease(api, "b")
    asyncio.run(first.acquire())

    async def tries() -> list[bool]:
        out = [await second._try()]
        clock.now += options.LEASE_DURATION_S
        out.append(await second._try())
        clock.now += 1
        out.append(await second._try())
        return out

    assert asyncio.run(tries()) == [False, False, True]
    assert second.term().number == 2


def test_a_renewal_seen_starts_the_wait_again(clock: Clock) -> None:
    api = Api()
    first, second = lease(api, "a"), lease(api, "b")

    async def tries() -> bool:
        await first.acquire()
        await second._try()
        clock.now += options.LEASE_DURATION_S
        assert api.stored is not None
        api.stored["spec"]["renewTime"] = "later"
        await second._try()
        clock.now += options.LEASE_DURATION_S
        return await second._try()

    assert asyncio.run(tries()) is False


def test_the_same_pod_takes_its_own_lease_back_at_once_in_a_new_term(clock: Clock) -> None:
    api = Api()
    asyncio.run(lease(api, "a").acquire())
    again = lease(api, "a")

    asyncio.run(again.acquire())

    assert again.term().number == 2


def test_a_released_lease_is_free(clock: Clock) -> None:
    api = Api()
    first, second = lease(api, "a"), lease(api, "b")

    async def hand_over() -> None:
        await first.acquire()
        await first.release()
        await second.acquire()

    asyncio.run(hand_over())

    assert not first.is_held()
    assert (second.is_held(), second.term().number) == (True, 2)


def test_two_that_race_have_one_winner(clock: Clock) -> None:
    api = Api()

    async def race() -> tuple[bool, bool]:
        await lease(api, "old").acquire()
        assert api.stored is not None
        api.stored["spec"]["holderIdentity"] = ""
        stale = {**api.stored}
        first, second = lease(api, "a"), lease(api, "b")
        won = await first._try()

        async def see_the_past(kind: str, namespace: str, name: str) -> Manifest:
            return stale

        api.get = see_the_past  # type: ignore[method-assign,assignment]
        return won, await second._try()

    assert asyncio.run(race()) == (True, False)


def test_keeping_ends_when_somebody_else_has_it(clock: Clock) -> None:
    api = Api()
    one = lease(api)

    async def lose() -> None:
        await one.acquire()
        api._store({"metadata": {"name": "bookie-operator"}, "spec": {"holderIdentity": "b", "leaseTransitions": 2}})
        await one.keep()

    asyncio.run(lose())

    assert not one.is_held()


def test_keeping_ends_when_the_api_server_stays_away(clock: Clock) -> None:
    api = Api()
    one = lease(api)

    async def lose() -> None:
        await one.acquire()
        api.is_down = True
        keeping = asyncio.create_task(one.keep())
        for _ in range(5):
            await asyncio.sleep(0)
        assert one.is_held()
        clock.now += options.LEASE_GIVE_UP_S
        await keeping

    asyncio.run(lose())

    assert not one.is_held()


def test_a_counter_at_its_end_begins_again_and_is_led_all_the_same(clock: Clock) -> None:
    """A release that followed forged epochs left such leases behind: int32 has nothing above, and nobody could lead."""
    api = Api()
    api._store({"metadata": {}, "spec": {"holderIdentity": "", "leaseTransitions": 2**31 - 1}})
    one = lease(api)

    asyncio.run(one.acquire())

    assert (one.term().number, api.spec()["leaseTransitions"]) == (1, 1)


def test_a_term_says_whether_it_is_held_now(clock: Clock) -> None:
    one = lease(Api())
    asyncio.run(one.acquire())
    held = one.term()
    clock.now += 60

    assert (held.identity, held.number, held.is_held) == ("a", 1, True)
    assert not one.term().is_held


def test_who_cannot_take_or_renew_the_lease_says_why_and_who_waits_for_a_leader_is_fine(clock: Clock) -> None:
    api = Api()
    one, standby = lease(api, "a"), lease(api, "b")
    assert one.hindrance

    async def until(holder: LeaderLease, reason: str) -> None:
        while not (reason in holder.hindrance if reason else holder.hindrance == ""):  # noqa: ASYNC110 - tells nobody
            await asyncio.sleep(0)

    async def story() -> None:
        api.is_down = True
        taking = asyncio.create_task(one.acquire())
        await until(one, "cannot be taken")
        assert "the API server cannot be reached" in one.hindrance
        api.is_down = False
        await taking
        assert one.hindrance == ""

        waiting = asyncio.create_task(standby.acquire())
        await until(standby, "")
        waiting.cancel()

        api.is_down = True
        keeping = asyncio.create_task(one.keep())
        await until(one, "cannot be renewed")
        keeping.cancel()

    asyncio.run(asyncio.wait_for(story(), 20))
