"""kstatus itself over the statuses that the operator writes: what Flux, and whoever waits as it does, makes of them."""

import json
from typing import Any

import pytest

import kube_parts
import kube_shell
import operator_support as make
from bookie.ports.admin import State, Verdict
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.status import render


def healing() -> dict[str, Any]:
    report = make.report(state=State.REPAIRING, verdict=Verdict.LOST)
    return make.stored(make.fleet(make.bookie_case(report=report)))


def held() -> dict[str, Any]:
    return make.stored(make.fleet(make.bookie_case(report=make.report(state=State.HELD, verdict=Verdict.FOREIGN))))


def edited() -> dict[str, Any]:
    """As the API server has it before the operator has seen the edit."""
    manifest = make.stored()
    manifest["metadata"]["generation"] += 1
    return manifest


def first_write() -> dict[str, Any]:
    """The very first write for a new generation, before any child."""
    return make.with_status(render.first(BookieClusterStatus(), 2, make.NOW_MS))


CASES = {
    "in order": (make.stored, "Current"),
    "a bookie heals": (healing, "Current"),
    "a bookie is held": (held, "Failed"),
    "an edit that nobody has seen": (edited, "InProgress"),
    "an edit that was just seen": (first_write, "InProgress"),
    "pods of an older revision": (lambda: make.stored(children={}), "InProgress"),
}


@pytest.mark.parametrize("case", CASES)
def test_kstatus_reads_what_the_operator_says(case: str) -> None:
    make_one, expected = CASES[case]

    answer = kube_shell.run(kube_parts.ensure("kstatus"), text_in=json.dumps(make_one()) + "\n")

    assert answer.split("\t")[0] == expected, answer
