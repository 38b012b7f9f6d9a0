"""Volumes that are lost, kept, swapped, wiped or set back: what can be proven heals, the rest is held and nothing is
written on it."""

from __future__ import annotations

import functools
import json

import pytest

import kube_engine
from fleet_support import Fleet
from scenario_support import is_complete

pytestmark = pytest.mark.cluster

POD = "ledgers-zone-b-0"
OTHER = "ledgers-zone-c-0"


def incarnation(fleet: Fleet, pod: str) -> int:
    return int(fleet.bookie(pod).get("incarnation", 0))


def serves_again(fleet: Fleet, pod: str, *, incarnation_min: int) -> None:
    def look() -> bool:
        entry = fleet.bookie(pod)
        return entry.get("state") == "Serving" and int(entry["incarnation"]) >= incarnation_min

    fleet.sees(f"{pod} to serve in life {incarnation_min}", look)


def gate(fleet: Fleet, pod: str, name: str) -> str:
    """Wait until `name` is the gate that keeps `pod`; return its message."""

    def look() -> str | None:
        gates = {one["name"]: one["message"] for one in fleet.bookie(pod).get("gates", ())}
        return gates.get(name)

    return fleet.sees(f"gate {name} of {pod}", look)


def profile(fleet: Fleet) -> str:
    return str(fleet.status()["history"][-1]["profile"])


def test_two_bookies_in_a_row_and_the_brake_between_them(fleet: Fleet) -> None:
    life = incarnation(fleet, POD)
    fleet.loses(POD)
    serves_again(fleet, POD, incarnation_min=life + 1)

    other = incarnation(fleet, OTHER)
    fleet.edits(repair={"maxPerDay": len(fleet.status()["history"])})
    fleet.loses(OTHER)
    gate(fleet, OTHER, "G8-Brake")
    assert fleet.condition("Stalled")["reason"] == "BrakeTripped"
    assert incarnation(fleet, OTHER) == other
    fleet.edits(repair={"maxPerDay": 20})
    serves_again(fleet, OTHER, incarnation_min=other + 1)


@pytest.mark.parametrize(("role", "repair"), [("index", "IndexRebuild"), ("journal", "JournalLoss")])
def test_the_claim_of_one_role_has_a_repair_of_its_own(fleet: Fleet, role: str, repair: str) -> None:
    life = incarnation(fleet, POD)
    fleet.loses(POD, f"{role}-{POD}")
    serves_again(fleet, POD, incarnation_min=life + 1)
    assert profile(fleet) == repair


def test_a_volume_that_was_kept_is_asked_for_before_anything_is_copied(fleet: Fleet) -> None:
    life = incarnation(fleet, POD)
    volumes = [volume["pvName"] for volume in fleet.bookie(POD)["volumes"]]
    retain = '{"spec": {"persistentVolumeReclaimPolicy": "Retain"}}'
    fleet.types(f"kubectl patch pv {' '.join(volumes)} --patch '{retain}'")
    fleet.loses(POD)

    told = gate(fleet, POD, "G6-OldVolume")
    assert any(volume in told for volume in volumes), told
    assert incarnation(fleet, POD) == life
    fleet.types(f"kubectl delete pv {' '.join(volumes)}")  # a person gives the old volumes up
    serves_again(fleet, POD, incarnation_min=life + 1)


def test_a_person_approves_one_case_by_its_evidence(fleet: Fleet) -> None:
    life = incarnation(fleet, POD)
    fleet.edits(repair={"regeneration": "Manual"})
    fleet.loses(POD)
    gate(fleet, POD, "G9-Policy")
    assert fleet.condition("Stalled")["reason"] == "AwaitingApproval"
    assert incarnation(fleet, POD) == life

    operation = fleet.orders(
        type="ApproveRegeneration", target={"bookie": POD}, evidence=fleet.bookie(POD)["evidence"],
        reason="the disk was swapped on purpose",
    )  # fmt: skip
    serves_again(fleet, POD, incarnation_min=life + 1)
    assert fleet.status()["history"][-1]["approval"]["operation"] == operation
    fleet.edits(repair={"regeneration": "Gated"})


def test_a_volume_that_somebody_wiped_is_lost_when_a_person_says_so(fleet: Fleet) -> None:
    life, grants = incarnation(fleet, POD), len(fleet.status().get("history", ()))
    node = str(fleet.pods()[POD]["spec"]["nodeName"])
    volume = next(one["pvName"] for one in fleet.bookie(POD)["volumes"] if one["name"] == "ledgers")
    path = fleet.types(f"kubectl get pv {volume} -o jsonpath='{{.spec.hostPath.path}}{{.spec.local.path}}'").strip()
    fleet.types(f"kubectl cordon {node}; kubectl delete pod {POD}")
    try:
        fleet.sees("its successor to wait for the node", lambda: not fleet.pods()[POD]["spec"].get("nodeName"))
        kube_engine.docker("exec", node, "find", path, "-mindepth", "1", "-delete")
    finally:
        fleet.types(f"kubectl uncordon {node}")

    def held() -> bool:
        entry = fleet.bookie(POD)
        return (entry.get("state"), entry.get("podUID")) == ("Held", fleet.uids()[POD])

    fleet.sees("it to be held", held, detail=lambda: str(fleet.bookie(POD)))
    entry, claims = fleet.bookie(POD), fleet.claim_uids()
    assert entry["reason"] in ("WipedInPlace", "EmptyButInitialized"), entry
    assert (entry["incarnation"], len(fleet.status().get("history", ()))) == (life, grants)

    other = fleet.orders(
        type="ConfirmLoss", target={"bookie": POD}, evidence="0" * 32, reason="somebody formatted the disk on Tuesday"
    )
    fleet.sees("other evidence to be refused", lambda: "and not 0000" in fleet.phase(other))
    assert fleet.claim_uids() == claims
    fleet.types(f"kubectl delete bookieoperation {other}")
    is_complete(fleet, fleet.orders(
        type="ConfirmLoss", target={"bookie": POD}, evidence=fleet.bookie(POD)["evidence"],
        reason="somebody formatted the disk on Tuesday",
    ))  # fmt: skip
    serves_again(fleet, POD, incarnation_min=life + 1)
    gone = {name for name, uid in fleet.claim_uids().items() if claims[name] != uid}
    assert gone == {f"ledgers-{POD}"}, "exactly the claim that was empty"


def test_two_bookies_at_once_wait_until_a_person_gives_up_what_only_they_had(fleet: Fleet) -> None:
    """The writers end first: what they had acknowledged by exactly these two would be lost by the two disks."""
    fleet.oracle.stop_writing()
    fleet.types("for pod in $(kubectl get pods -l app.kubernetes.io/component=bookie -o name); do"
                " kubectl exec $pod -- bookie node fill-holes --start --watch || true; done")  # fmt: skip
    lives = {pod: incarnation(fleet, pod) for pod in (POD, OTHER)}
    for pod in lives:
        fleet.loses(pod)
    fleet.says("Stalled", "AckQuorumBreached")
    for pod in lives:
        gate(fleet, pod, "G4-Tolerance")
    assert lives == {pod: incarnation(fleet, pod) for pod in lives}
    empty = [{"name": pod, "evidence": fleet.bookie(pod)["evidence"]} for pod in lives]

    why = {"reason": "two disks are given up on purpose"}
    one = fleet.orders(type="AcceptLoss", target={"bookies": empty[:1]}, **why)
    fleet.sees("one alone to be not enough", lambda: "without its data too" in fleet.phase(one))
    fleet.types(f"kubectl delete bookieoperation {one}")
    fleet.orders(type="AcceptLoss", target={"bookies": empty}, **why)
    for pod, life in lives.items():
        fleet.sees(f"{pod} to begin life {life + 1}", functools.partial(has_begun, fleet, pod, life + 1))

    # Of a ledger that was open only the third bookie still knows the end, and nobody may believe one alone.
    asked = set[str]()
    fleet.sees("nothing to wait for a person any more", lambda: not ends_what_nobody_can(fleet, tuple(lives), asked))
    for pod, life in lives.items():
        serves_again(fleet, pod, incarnation_min=life + 1)


def has_begun(fleet: Fleet, pod: str, life: int) -> bool:
    return incarnation(fleet, pod) == life and fleet.bookie(pod)["state"] in ("Repairing", "Serving")


def ends_what_nobody_can(fleet: Fleet, pods: tuple[str, ...], asked: set[str]) -> bool:
    """Have each ledger closed that blocks the repair of one of these, as a person does whom its bookie told of it.
    Return True while a repair goes on. `asked`: for which ledgers that was done."""
    repairs = [
        json.loads(fleet.types(f"kubectl exec {pod} -- bookie integrity status --json 2>/dev/null || true"))
        for pod in pods
    ]
    ledgers = sorted({str(one["ledgerId"]) for repair in repairs for one in repair["blocked"]} - asked)[:64]
    if ledgers:
        asked |= set(ledgers)
        target = {"ledgers": ledgers, "givenUp": list(pods)}
        fleet.orders(type="AcceptLedgerLoss", target=target, reason="two disks are given up on purpose")
    return not all(repair["done"] for repair in repairs)
