"""Operations as they come from the API server: what is taken, what is refused, and by which sentence."""

from typing import Any

import pytest

import operator_support as make
from bookie_operator.model import operation, operation_rules
from bookie_operator.model.operation import OperationPhase, OperationType


def test_an_operation_is_read_with_its_defaults() -> None:
    found = operation.parse(make.operation_manifest())

    assert found.spec is not None
    assert (found.spec.type, found.spec.target.bookie) == (OperationType.RESTART, "ledgers-zone-a-0")
    assert (found.problem, found.is_over) == ("", False)
    assert found.expires_ms == make.NOW_MS - 60_000 + 24 * 3_600_000


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"target": {}}, "spec.target.bookie is missing"),
        ({"target": None}, "spec.target.bookie is missing"),
        ({"type": "Explode"}, "spec.type"),
        ({"clusterRef": {}}, "spec.clusterRef.name"),
        ({"clusterRef": None}, "spec.clusterRef"),
        ({"expiresAfter": "soon"}, "spec.expiresAfter"),
        ({"reason": 7}, "spec.reason"),
    ],
)
def test_a_spec_that_cannot_be_used_is_told_in_a_sentence(changes: dict[str, Any], word: str) -> None:
    found = operation.parse(make.operation_manifest(**changes))

    assert found.spec is None
    assert word in found.problem


REASON = "both disks of the rack burnt"
OF_LEDGERS = {"ledgers": ["7", "9223372036854775807"], "givenUp": ["ledgers-zone-a-0"]}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"type": "ApproveRegeneration", "reason": REASON}, "spec.evidence is missing"),
        ({"type": "ApproveRegeneration", "evidence": "0123456789"}, "spec.reason is shorter than 20"),
        ({"type": "ApproveRegeneration", "evidence": "0123456789", "reason": "x" * 19}, "spec.reason is shorter"),
        ({"type": "AcceptLoss", "reason": REASON}, "spec.target.bookies is empty"),
        ({"type": "AcceptLoss", "reason": REASON, "target": {"bookies": []}}, "spec.target.bookies is empty"),
        ({"type": "AcceptLoss", "reason": REASON, "target": {"bookies": [{"name": "a"}]}}, "evidence"),
        ({"type": "AcceptLedgerLoss", "target": OF_LEDGERS}, "spec.reason is shorter"),
        ({"type": "AcceptLedgerLoss", "reason": REASON, "target": {"ledgers": ["7"]}}, "which needs both"),
        ({"type": "AcceptLedgerLoss", "reason": REASON, "target": {"givenUp": ["a-0"]}}, "which needs both"),
        ({"type": "AcceptLedgerLoss", "reason": REASON, "target": OF_LEDGERS | {"ledgers": ["-7"]}}, "ledgers"),
        (
            {"type": "AcceptLedgerLoss", "reason": REASON, "target": OF_LEDGERS | {"ledgers": ["9223372036854775808"]}},
            "above 9223372036854775807",
        ),
        ({"target": OF_LEDGERS | {"bookie": "ledgers-zone-a-0"}}, "belong to AcceptLedgerLoss"),
    ],
)
def test_what_may_give_data_up_asks_for_evidence_and_a_sentence(changes: dict[str, Any], word: str) -> None:
    found = operation.parse(make.operation_manifest(**changes))

    assert found.spec is None
    assert word in found.problem


def test_ledgers_may_be_given_up_by_a_sentence_and_names() -> None:
    found = operation.parse(make.operation_manifest(type="AcceptLedgerLoss", reason=REASON, target=OF_LEDGERS))

    assert found.problem == ""
    assert found.spec is not None
    assert found.spec.target.ledgers == ("7", "9223372036854775807")


def test_what_python_refuses_is_refused_in_the_words_of_the_api_server() -> None:
    found = operation.parse(make.operation_manifest(target={}))

    assert found.problem in {rule.message for rule in operation_rules.OPERATION}


def test_the_names_in_the_rules_are_types() -> None:
    assert {*operation_rules.TYPES_OF_A_BOOKIE, *operation_rules.EXPLAINED_TYPES} <= {
        one.value for one in OperationType
    }


def test_who_wrote_the_spec_is_read_from_the_managed_fields_and_never_the_operator() -> None:
    manifest = make.operation_manifest()
    manifest["metadata"]["managedFields"] = [
        {"manager": "bookie-operator-status", "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"manager": "kubectl-create\n", "operation": "Update", "fieldsV1": {"f:spec": {"f:type": {}}}},
    ]

    assert operation.parse(manifest).requested_by == "kubectl-create?"
    assert operation.parse(make.operation_manifest()).requested_by == ""


def test_a_status_that_cannot_be_read_counts_as_lost() -> None:
    manifest = make.operation_manifest() | {"status": {"phase": "Perhaps"}}

    assert operation.parse(manifest).status.phase is None


def test_final_phases_are_final() -> None:
    assert [one.value for one in OperationPhase if not one.is_final] == ["Queued", "Running"]
