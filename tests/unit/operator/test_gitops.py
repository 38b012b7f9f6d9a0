"""What GitOps tools make of a BookieCluster: Argo CD's health script over the statuses that the operator writes."""

from typing import Any

import lupa.lua54
import pytest

import operator_support as make
from bookie.ports.admin import State, Verdict
from pages_support import ROOT

SCRIPT = (ROOT / "examples" / "gitops" / "argocd-health.lua").read_text(encoding="utf-8")


def health(manifest: dict[str, Any]) -> tuple[str, str]:
    """As Argo CD asks: the object is the global `obj`, the answer a table."""
    lua = lupa.lua54.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = table(lua, manifest)
    answer = lua.execute(SCRIPT)
    return answer.status, answer.message


def table(lua: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return lua.table_from({key: table(lua, one) for key, one in value.items() if one is not None})
    if isinstance(value, (list, tuple)):
        return lua.table_from([table(lua, one) for one in value])
    return value


def test_a_fleet_in_order_is_healthy() -> None:
    assert health(make.stored())[0] == "Healthy"


def test_a_generation_that_nobody_has_seen_is_progressing_whatever_the_old_conditions_say() -> None:
    manifest = make.stored()
    manifest["metadata"]["generation"] += 1

    assert health(manifest) == ("Progressing", "the operator has not seen this generation yet")


def test_a_cluster_without_status_is_progressing() -> None:
    assert health(make.manifest())[0] == "Progressing"


def test_a_held_bookie_is_degraded_with_its_reason() -> None:
    held = make.bookie_case(report=make.report(state=State.HELD, verdict=Verdict.FOREIGN))

    status, message = health(make.stored(make.fleet(held)))

    assert status == "Degraded"
    assert message.startswith("BookieHeld: ")


def test_a_paused_cluster_is_suspended_and_one_that_goes_is_not_healthy() -> None:
    paused = make.stored(spec={"lifecycle": {"paused": True}})
    gone = make.stored()
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert health(paused)[0] == "Suspended"
    assert health(gone)[0] == "Progressing"


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        ("Stalled", "True", "Degraded"),
        ("Reconciling", "True", "Progressing"),
        ("DataAtRisk", "True", "Degraded"),
        ("Ready", "False", "Progressing"),
        ("Ready", "Unknown", "Progressing"),
        ("Hibernated", "True", "Suspended"),
    ],
)
def test_each_condition_alone_keeps_it_from_being_healthy(kind: str, word: str, expected: str) -> None:
    manifest = make.stored()
    (one,) = [entry for entry in manifest["status"]["conditions"] if entry["type"] == kind]
    one["status"] = word

    assert health(manifest)[0] == expected
