"""Required is made only when no pod is Disabled any more (spec/operator.md#Q18)."""

import json
from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.plan import security_steps
from bookie_operator.plan.observation import Observation

TLS, USERS = "spec.security.tls.mode", "spec.security.authentication.mode"


def seen(mode: str, *marks: str | None, part: str = "tls", inputs: str = "v1-older") -> Observation:
    """A fleet whose first pods were made with these marks of the mode; None: nothing was said of it."""
    cases = list(make.fleet())
    path = TLS if part == "tls" else USERS
    for index, mark in enumerate(marks):
        pod = cases[index].pod
        assert pod is not None
        said = json.dumps({path: mark} if mark is not None else {})
        cases[index] = replace(cases[index], pod=replace(pod, inputs=inputs, said=said))
    of_part: dict[str, Any] = {"mode": mode} | ({"secretName": "users"} if part == "authentication" else {})
    return make.observation(tuple(cases), spec_changes={"security": {part: of_part}})


@pytest.mark.parametrize("part", ["tls", "authentication"])
def test_required_is_permissive_while_a_pod_is_disabled(part: str) -> None:
    waiting = security_steps.between(seen("Required", "permissive", None, part=part))
    ready = security_steps.between(seen("Required", "permissive", "required", part=part))

    assert getattr(waiting.cluster.spec.security, part).mode == "Permissive"
    assert getattr(ready.cluster.spec.security, part).mode == "Required"


@pytest.mark.parametrize("mode", ["Disabled", "Permissive"])
def test_any_other_mode_is_made_as_it_is_said(mode: str) -> None:
    told = seen(mode, None, "required")

    assert security_steps.between(told) is told


def test_a_pod_without_notes_and_a_bookie_without_a_pod_hold_nothing_up() -> None:
    unnoted = seen("Required", None, inputs="")
    away = seen("Required")
    away = replace(away, bookies=(replace(away.bookies[0], pod=None),))

    assert security_steps.between(unnoted) is unnoted
    assert security_steps.between(away) is away


@pytest.mark.parametrize("said", ["{", "[]", "null", ""])
def test_a_pod_whose_notes_cannot_be_read_holds_nothing_up(said: str) -> None:
    torn = seen("Required", None)
    pod = torn.bookies[0].pod
    assert pod is not None
    torn = replace(torn, bookies=(replace(torn.bookies[0], pod=replace(pod, said=said)),))

    assert security_steps.between(torn) is torn


def test_who_is_waited_for_is_named_and_only_while_required_is_asked_for() -> None:
    asked, other = seen("Required", "permissive", None, None), seen("Permissive", None)

    assert security_steps.waits_for(asked.cluster.spec, "tls", asked.bookies) == (
        "ledgers-zone-a-1",
        "ledgers-zone-b-0",
    )
    assert security_steps.waits_for(other.cluster.spec, "tls", other.bookies) == ()
