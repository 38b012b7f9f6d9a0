"""The default memory limit of a bookie's container: what its budgets and caches need."""

from typing import Any

import pytest

import operator_support as make
from bookie.base import budgets
from bookie.base.units import MIB
from bookie_operator.model.values import parse_quantity
from bookie_operator.resources import memory, pod


def storage(ledgers: int) -> dict[str, Any]:
    volumes = [{"name": f"l{number}", "size": "1Gi"} for number in range(ledgers)]
    return {key: value for key, value in make.spec()["storage"].items() if key != "index"} | {
        "ledgers": {"volumes": volumes}
    }


def limit(**changes: Any) -> int:
    cluster = make.cluster(**changes)
    (container,) = pod.spec(cluster, "zone-a", None, make.IMAGE)["containers"]
    return int(parse_quantity(container["resources"]["limits"]["memory"]))


def test_a_bookie_without_a_memory_limit_gets_what_its_budgets_need() -> None:
    need = budgets.memory_need_bytes()

    assert need <= limit(resources={"requests": {"memory": "128Mi"}}) < need + MIB


def test_more_ledger_volumes_need_more() -> None:
    small = {"requests": {"memory": "128Mi"}}

    three = limit(resources=small, storage=storage(3))

    assert three - limit(resources=small, storage=storage(1)) >= 2 * (budgets.INDEX_BYTES + budgets.READ_CACHE_BYTES)


def test_caches_that_config_says_count_for_all_ledger_volumes_together() -> None:
    small = {"requests": {"memory": "128Mi"}}
    config = {"dbStorage_writeCacheMaxSizeMb": "480", "dbStorage_readAheadCacheMaxSizeMb": "600"}
    expected = budgets.memory_need_bytes(ledger_dirs=3, write_cache_bytes=80 * MIB, read_cache_bytes=200 * MIB)

    assert expected <= limit(resources=small, storage=storage(3), config=config) < expected + MIB


@pytest.mark.parametrize("key", ["dbStorage_writeCacheMaxSizeMb", "nettyMaxFrameSizeBytes"])
def test_a_number_that_is_none_is_told_elsewhere_and_breaks_nothing_here(key: str) -> None:
    assert limit(config={key: "much"}) == limit()


def test_a_limit_is_never_under_the_request_and_the_users_own_wins() -> None:
    assert limit(resources={"requests": {"memory": "4Gi"}}) == 4096 * MIB
    assert memory.limits(make.cluster(resources={"limits": {"memory": "512Mi", "cpu": "2"}}).spec) == {
        "memory": "512Mi",
        "cpu": "2",
    }


def test_a_limit_below_the_need_is_told_and_one_that_is_enough_is_not() -> None:
    need_mib = budgets.memory_need_bytes() // MIB + 1

    def shortage(limit: str, **config: str) -> str:
        resources = {"requests": {"memory": "128Mi"}, "limits": {"memory": limit}}
        return memory.shortage(make.cluster(resources=resources, config=config or None).spec)

    assert shortage(f"{need_mib}Mi") == ""
    assert f"raise the limit to {need_mib}Mi" in shortage(f"{need_mib - 1}Mi")
    assert shortage(f"{need_mib}Mi", dbStorage_readAheadCacheMaxSizeMb="1024") != ""
    assert memory.shortage(make.cluster().spec) == ""


@pytest.mark.parametrize(
    ("requests", "limits", "name"),
    [
        ({"memory": "2Gi"}, {"memory": "1Gi"}, "memory"),
        ({"memory": "256Mi", "cpu": "1"}, {"cpu": "999m"}, "cpu"),
    ],
)
def test_a_request_above_its_limit_is_told(requests: dict[str, str], limits: dict[str, str], name: str) -> None:
    (sentence,) = memory.problems(make.cluster(resources={"requests": requests, "limits": limits}).spec)

    assert f"spec.resources.requests.{name} is {requests[name]}" in sentence
    assert f"spec.resources.limits.{name} is {limits[name]}" in sentence


def test_requests_up_to_their_limits_are_no_problem() -> None:
    same = {"requests": {"memory": "2Gi", "cpu": "1"}, "limits": {"memory": "2048Mi", "cpu": "1000m"}}

    assert memory.problems(make.cluster(resources=same).spec) == ()
