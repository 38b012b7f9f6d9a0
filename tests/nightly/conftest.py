"""Scenarios of a fleet's life, one after the other on one fleet, each under an oracle of its own (`make e2e`).

A scenario is a test that asks for `fleet`: what a person types, what is seen. Around it: the writers start before it
and all that they wrote is read back after it, all bookies serve again, and the status tells the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kube_home
import kube_kind
import stage_support
from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from scenario_support import FAILED, QUICK, under_writers
from stage_support import stage

__all__ = ["beside_zookeeper", "fleet", "nodes_back", "person", "stage"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def person(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    found = Fleet(stage, tmp_path_factory.mktemp("shell"))
    found.edits(**QUICK)
    return found


@pytest.fixture
def fleet(person: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """The fleet under writers; the verdict after the scenario."""
    yield from under_writers(person, request)


@pytest.fixture
def beside_zookeeper(person: Fleet) -> str:
    """Whatever starts next starts on ZooKeeper's node, the operator too; returns that node. The test uncordons."""
    return stage_support.gather_beside_zookeeper()


@pytest.fixture
def nodes_back(person: Fleet) -> Iterator[None]:
    """All nodes are there and take pods, whatever a test did."""
    yield
    kube_kind.start(kube_home.this().name)
    stage_support.uncordon()
