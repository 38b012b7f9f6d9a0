"""The lease: one holder, numbered terms, and no action on a lease that may be somebody else's."""

import asyncio
import re
from collections.abc import Callable
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
        self.before: Callable[[], None] = lambda: None  # happens while a question is on its way

    def _check(self) -> None:
        if self.is_down:
            raise KubeError("lease", 0, "the API server cannot be reached")

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        self._check()
        self.before()
        return None if self.stored is None else {**self.stored}

    async def create(self, manifest: Manifest) -> Manifest:
        self._check()
        if self.stored is not None:
            raise KubeError("create", 409, "exists")
        return self._store(manifest)

    async def merge(self, manifest: Manifest) -> Manifest:
        raise AssertionError

    async def replace(self, manifest: Manifest) -> Manifest:
        self._check()
        if manifest["metadata"].get("resourceVersion") != str(self.version):
            raise KubeError("replace", 409, "moved")
        return self._store(manifest)

    def edit(self, **spec: Any) -> None:
        """Somebody else's change of the lease."""
        assert self.stored is not None
        self._store({**self.stored, "spec": {**self.stored["spec"], **spec}})

    def _store(self, manifest: Manifest) -> Manifest:
        if self.stored is not None and manifest == self.stored:
            return self.stored  # what changes nothing makes no new version, as in Kubernetes
        self.version += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self.version)}
        self.stored = {**manifest, "metadata": metadata}
        return self.stored

    def spec(self) -> dict[str, Any]:
        assert self.stored is not None
        return dict(self.stored["spec"])

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        raise AssertionError

    async def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        raise AssertionError

    async def replace_status(self, manifest: Manifest, *, manager: str) -> Manifest:
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


def test_a_leader_that_renews_keeps_the_lease_from_whoever_waits(clock: Clock) -> None:
    """A renewal that changed nothing was none to it: a second replica took the lease every 20 s."""
    api = Api()
    first, second = lease(api, "a"), lease(api, "b")

    async def tries() -> list[tuple[bool, bool]]:
        await first.acquire()
        out = []
        for _ in range(10):
            out.append((await first._try(), await second._try()))
            clock.now += options.LEASE_DURATION_S / 4
        return out

    assert asyncio.run(tries()) == [(True, False)] * 10
    # The API server takes a metav1.MicroTime, with six digits, and nothing else.
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", api.spec()["renewTime"])


def test_the_lease_counts_from_before_the_request(clock: Clock) -> None:
    """Whoever waits may have seen the renewal as soon as that was sent."""
    api = Api()
    one = lease(api)

    def slow() -> None:
        clock.now += 4

    api.before = slow
    asyncio.run(one.acquire())

    clock.now += options.LEASE_GIVE_UP_S - 4
    assert not one.is_held()


def test_a_change_by_a_stranger_does_not_end_a_lease_that_is_held_and_gives_none_that_is_over(clock: Clock) -> None:
    api = Api()
    one = lease(api)

    async def renews_into_a_conflict() -> bool:
        assert api.stored is not None
        was, api.stored = api.stored, {**api.stored}
        api.stored["metadata"] = {**was["metadata"], "resourceVersion": "of before"}
        try:
            return await one._try()
        finally:
            api.stored = was

    async def story() -> tuple[bool, bool]:
        await one.acquire()
        held = await renews_into_a_conflict()
        clock.now += options.LEASE_GIVE_UP_S
        return held, await renews_into_a_conflict()

    assert asyncio.run(story()) == (True, False)


def test_who_lost_the_lease_and_loses_the_race_for_it_does_not_hold_it(clock: Clock) -> None:
    api = Api()
    one = lease(api)

    async def story() -> bool:
        await one.acquire()
        api.edit(holderIdentity="", leaseTransitions=2)
        assert api.stored is not None
        api.stored["metadata"] = {"resourceVersion": "of before"}
        assert one.is_held(), "its time is not over yet"
        return await one._try()

    assert asyncio.run(story()) is False


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


def test_a_lease_that_is_given_up_is_not_held_from_before_anybody_can_know(clock: Clock) -> None:
    api = Api()
    one = lease(api)
    held: list[bool] = []

    async def story() -> None:
        await one.acquire()
        api.before = lambda: held.append(one.is_held())
        await one.release()

    asyncio.run(story())

    assert held == [False]
    assert api.spec()["holderIdentity"] == ""


@pytest.mark.parametrize("holder", ["b", "a"], ids=["another's", "the next life's of this pod"])
def test_what_is_ours_no_more_is_not_given_up(clock: Clock, holder: str) -> None:
    api = Api()
    one = lease(api)

    async def story() -> None:
        await one.acquire()
        api.edit(holderIdentity=holder, leaseTransitions=2)
        if holder == "a":
            clock.now += options.LEASE_GIVE_UP_S
        await one.release()

    asyncio.run(story())

    assert api.spec()["holderIdentity"] == holder


@pytest.mark.parametrize("change", [{"leaseTransitions": 2}, {"holderIdentity": "c"}], ids=["term", "holder"])
def test_a_new_holder_or_term_starts_the_wait_again(clock: Clock, change: dict[str, Any]) -> None:
    api = Api()
    second = lease(api, "b")
    api._store({"metadata": {}, "spec": {"holderIdentity": "a", "leaseTransitions": 1}})

    async def tries() -> list[bool]:
        out = [await second._try()]
        clock.now += options.LEASE_DURATION_S
        api.edit(**change)
        out.append(await second._try())
        clock.now += options.LEASE_DURATION_S
        return [*out, await second._try()]

    assert asyncio.run(tries()) == [False, False, False]


def test_a_holder_is_waited_for_as_long_as_it_says_itself(clock: Clock) -> None:
    api = Api()
    second = lease(api, "b")
    api._store({"metadata": {}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 60}})

    async def tries() -> list[bool]:
        out = [await second._try()]
        for _ in range(2):
            clock.now += 31
            out.append(await second._try())
        return out

    assert asyncio.run(tries()) == [False, False, True]


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
