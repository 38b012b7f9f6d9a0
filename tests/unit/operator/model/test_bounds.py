"""Fields that the API server takes and nobody behind it can use (spec/operator.md#K16)."""

import copy
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import OpenLedgers
from bookie.rpc import calls
from bookie_operator.model import bounds, values
from bookie_operator.plan.departure import draining

STORE = make.spec()["metadataService"]


@pytest.mark.parametrize(
    "image",
    [
        "bookie",
        "bookie:dev",
        "localhost:5000/bookie",
        "Registry.Example.com/team/bookie-py_x.y:v1.0_RC-1",
        "[fd00::1]:5000/a/b",
        "ghcr.io/a__b/c--d@sha256:" + "0a" * 32,
        "ghcr.io/a/b:tag@sha256:" + "0a" * 32,
        None,
        "",
    ],
)
def test_an_image_that_can_be_pulled_is_taken(image: str | None) -> None:
    assert bounds.problems(make.cluster(image=image).spec) == ()


@pytest.mark.parametrize(
    "image",
    [
        "Bad Image:tag",
        "Bookie:dev",
        "bookie:",
        "bookie:dev\n",
        "a//b",
        "https://host/a",
        "a:b:c",
        "a@sha256:xx",
        "b\u00fc:1",
    ],
)
def test_an_image_that_nobody_can_pull_is_named(image: str) -> None:
    (said,) = bounds.problems(make.cluster(image=image).spec)

    assert said.startswith(f"spec.image: {image!r} is not the name of an image")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"metadataService": STORE | {"sessionTimeout": "0s"}}, "spec.metadataService.sessionTimeout"),
        ({"metadataService": STORE | {"sessionTimeout": "597h"}}, "spec.metadataService.sessionTimeout"),
        ({"lifecycle": {"terminationGrace": "3000000h"}}, "spec.lifecycle.terminationGrace"),
        ({"lifecycle": {"terminationGrace": "99999999999999999999h"}}, "spec.lifecycle.terminationGrace"),
    ],
)
def test_a_time_that_nobody_can_count_is_named(changes: dict[str, Any], field: str) -> None:
    (said,) = bounds.problems(make.cluster(**changes).spec)

    assert said.startswith(f"{field}: ")


def test_times_at_their_bounds_are_taken() -> None:
    spec = make.cluster(
        metadataService=STORE | {"sessionTimeout": "2147483647ms"}, lifecycle={"terminationGrace": "9000h"}
    )

    assert bounds.problems(spec.spec) == ()


def test_a_copy_rate_beyond_all_numbers_of_the_admin_port_is_no_limit() -> None:
    rate = draining.rate(make.cluster(scaleDown={"copyRate": "9999999999P"}).spec.scale_down)

    assert calls.drain(calls.DrainAction.START, operator_epoch=1, bytes_per_second=rate, open_ledgers=OpenLedgers.WAIT)


@pytest.mark.parametrize("size", ["0", "0Gi", "0.5", "100m", "9223372036854775808", "99999999999999999999999999P"])
def test_a_size_that_no_disk_has_is_named(size: str) -> None:
    storage = copy.deepcopy(make.spec()["storage"])
    storage["ledgers"]["volumes"][0]["size"] = size

    (said,) = bounds.problems(make.cluster(storage=storage).spec)

    assert said.startswith(f"spec.storage: volume {storage['ledgers']['volumes'][0]['name']} of {size} is a size")


@pytest.mark.parametrize("size", ["99999999999999999999999999P", "1024P", "100Gi", "1000", "0.5", "0"])
def test_every_size_can_be_told(size: str) -> None:
    told = values.format_quantity(values.parse_quantity(size))

    assert values.parse_quantity(told) == values.parse_quantity(size)
