"""The demo's story as assertions: a bookie loses its volumes on a real Kubernetes, and the fleet heals itself."""

import pytest

from stage import Outcome, Proof

pytestmark = pytest.mark.cluster

PHASE_ONE_MS_MAX = 10_000  # issue 3, "Least figures"


def proof(told: Outcome, claim: str) -> Proof:
    return next(one for one in told.proofs if claim in one.claim)


@pytest.mark.parametrize(
    "claim",
    [
        "every acknowledged entry of every ledger reads back with the same bytes",
        "the bookie holds again every copy that metadata assigns to it",
        "were closed to writers there before its cookie came back",
        "the writer that lived through it is still writing",
        "before the heal had ended the audit named what was lost, and nothing else",
        "the audit sees every replica that metadata promises",
        "the bookie's new incarnation is in the metadata and on its volumes",
        "kubectl get bookiecluster,pods is all ready",
    ],
)
def test_the_claim_holds(told: Outcome, claim: str) -> None:
    found = proof(told, claim)

    assert found.holds, found.seen


def test_phase_one_takes_less_than_ten_seconds(told: Outcome) -> None:
    assert 0 <= told.last.phase_one_ms < PHASE_ONE_MS_MAX


def test_something_was_really_lost_and_copied_back(told: Outcome) -> None:
    assert told.loss is not None
    assert {volume.role for volume in told.loss.volumes} == {"journal", "ledgers", "index"}
    assert told.last.entries_copied > 0
    assert told.last.incarnation >= 2
