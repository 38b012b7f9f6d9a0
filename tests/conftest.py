"""For every test: what hypothesis may assume of this machine, and what processes said when a test of theirs fails."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, Phase, settings

import changes_support
import children
import seeds_support

# A run that a script began in the background ignores Ctrl-C, and so would all that its tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A child that is forked (`children.spawn`) while this process has a gRPC channel may end before it is a program: gRPC's
# thread is started anew in it, and finds its descriptors closed (grpc/grpc#43055; 1 to 8 of 400). Before gRPC's import.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# A loaded machine is no defect: how long an example takes is asked by benchmarks, not by tests of rules.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `make mutants`: the same examples each time, none of an earlier run; red is enough, nobody reads a smaller example.
settings.register_profile(
    "mutants",
    settings.get_profile("house"),
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("house")


# Hundreds of lives each: of the operator, and of procedures whose metadata session ends at any of their changes.
DRAWN = ("tests/simulation/operator/", "tests/simulation/test_expiry.py")
# Six hundred more lives, seconds each: a third of what all tests but the slow ones take.
LIVES = "tests/simulation/operator/"
TIDY = "tests/tidy/"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow-share",
        type=int,
        default=1,
        metavar="N",
        help="one in N of the slow lives of a fleet, drawn by the commit (SIM_SEED); the others are not run",
    )
    parser.addoption(
        "--lives-share",
        type=int,
        default=1,
        metavar="N",
        help="one in N of the other lives under the operator, drawn like that",
    )
    parser.addoption(
        "--share",
        type=int,
        default=1,
        metavar="N",
        help="one in N of all tests, drawn like that; all of tests/tidy, and all beside what differs from the commit",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting makes half a million objects and hardly a cycle: to look for garbage among them, again and again, took
    a third of its time. They stay to the end, so nobody looks at them later either."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Hundreds of whole lives of a fleet take longer than all other tests together: each commit runs others of them,
    and `make simulation SLOW=1` all. Thousands of quick tests take longer than somebody waits who changed one line."""
    shares = {name: config.getoption(name) for name in ("--slow-share", "--lives-share", "--share")}
    slow_share, lives_share, share = shares.values()
    for name, given in shares.items():
        if given < 1:
            raise pytest.UsageError(f"{name} {given}: one in how many? Write a number from 1 on")
    if set(shares.values()) == {1}:
        return  # nothing to draw: no test of its own, and no mutant, pays for a look at the commit
    seed = seeds_support.base_seed()
    always = (TIDY, *changes_support.nearest()) if share > 1 else ()

    def is_drawn(item: pytest.Item) -> bool:
        is_slow = item.nodeid.startswith(DRAWN) and item.get_closest_marker("slow")
        of_these = slow_share if is_slow else lives_share if item.nodeid.startswith(LIVES) else 1
        if not seeds_support.is_drawn(item.nodeid, of_these, seed):
            return False
        return item.nodeid.startswith(always) or seeds_support.is_drawn(item.nodeid, share, seed)

    drawn, left_out = [], []
    for one in items:
        (drawn if is_drawn(one) else left_out).append(one)
    config.hook.pytest_deselected(items=left_out)
    items[:] = drawn


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A command that a test runs in this process may set up logging (`runtime.log`), to the test's own stderr, which is
    closed when it ends. Whatever a later test logs would be an error there, printed into what that test reads."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        return (yield)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test's error tells how the logs of its fixtures' processes end: no fixture sees the error itself."""
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        for given in getattr(item, "funcargs", {}).values():
            if isinstance(given, children.Logged) and callable(given.logs):  # the protocol asks for the name alone
                children.explain(call.excinfo.value, given.logs())
    return (yield)
