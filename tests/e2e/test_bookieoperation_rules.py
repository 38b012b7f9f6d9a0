"""The CRD of operations before a real API server: what is refused by which sentence, and that no spec ever changes."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import cluster_support
import kube_shell
import kube_tools
import wait_support
from bookie_operator import app
from bookie_operator.gateways.kube import ApiServer, KubeError, Manifest
from bookie_operator.model import names
from bookie_operator.model.operation_rules import EXPLAINED_TYPES
from kube_errors import CommandFailed

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "bookie-operation-rules"
REASON = "tried by a test, long enough"
EVIDENCE = "0123456789abcdef0123456789abcdef"
OF_LEDGERS = {"ledgers": ["7", "1048577"], "givenUp": ["ledgers-zone-a-0"]}
OF_BOOKIES = {"bookies": [{"name": "ledgers-zone-a-0", "evidence": EVIDENCE}]}
# What may give data up, each as an API server takes it.
GIVES_UP: dict[str, dict[str, Any]] = {
    "ApproveRegeneration": {"evidence": EVIDENCE},
    "ConfirmLoss": {"evidence": EVIDENCE},
    "RestoreCookie": {"evidence": EVIDENCE},
    "AcceptLoss": {"target": OF_BOOKIES},
    "AcceptLedgerLoss": {"target": OF_LEDGERS},
}


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[str]:
    """A cluster with the committed CRD, and a namespace that no operator watches."""
    path = cluster_support.kubeconfig_or_skip()
    for plural in (names.OPERATION_PLURAL, names.PLURAL):
        committed = str(ROOT / "crds" / f"{plural}.yaml")
        kube_tools.kubectl("apply", "--server-side", "--force-conflicts", "-f", committed)
        kube_tools.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{plural}.{names.GROUP}")
    kube_tools.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    kube_tools.kubectl("create", "namespace", NAMESPACE)
    yield str(path)
    kube_tools.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def manifest(**changes: Any) -> Manifest:
    spec = {"clusterRef": {"name": "ledgers"}, "type": "Restart", "target": {"bookie": "ledgers-zone-a-0"}} | changes
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.OPERATION_KIND,
        "metadata": {"name": "tried", "namespace": NAMESPACE},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def answer(kubeconfig: str, verb: str, name: str, body: Manifest, *, is_tried: bool = True) -> str:
    """ "" when the API server takes it, else its sentence."""

    async def ask() -> str:
        async with ApiServer(await app.configuration(kubeconfig)) as api:
            try:
                query = {"dryRun": "All"} if is_tried else {}
                await api._ask(verb, names.OPERATION_KIND, NAMESPACE, name, query=query, body=body)
            except KubeError as error:
                if not error.is_refusal:
                    raise
                return str(error)
            return ""

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"type": "ApproveRegeneration", "evidence": EVIDENCE, "reason": REASON}, ""),
        (
            {
                "type": "AcceptLoss",
                "reason": REASON,
                "target": {"bookies": [{"name": "ledgers-zone-a-0", "evidence": EVIDENCE}]},
            },
            "",
        ),
        ({"target": None}, "spec.target.bookie is missing"),
        ({"type": "Explode"}, "spec.type"),
        ({"type": "ApproveRegeneration", "reason": REASON}, "spec.evidence is missing"),
        ({"type": "ApproveRegeneration", "evidence": EVIDENCE, "reason": "because"}, "spec.reason is shorter"),
        ({"type": "ApproveRegeneration", "evidence": EVIDENCE}, "spec.reason is shorter"),
        ({"type": "ApproveRegeneration", "evidence": "what it says", "reason": REASON}, "is not an evidence: copy it"),
        ({"type": "AcceptLoss", "reason": REASON, "target": {"bookies": []}}, "spec.target.bookies is empty"),
        ({"type": "AcceptLoss", "reason": REASON, "target": None}, "spec.target.bookies is empty"),
        (
            {"expiresAfter": "tomorrow"},
            "spec.expiresAfter: Invalid value: \"string\": 'tomorrow' is not a span of time",
        ),
        ({"type": "AcceptLedgerLoss", "reason": REASON, "target": OF_LEDGERS}, ""),
        ({"type": "AcceptLedgerLoss", "target": OF_LEDGERS}, "spec.reason is shorter"),
        ({"type": "AcceptLedgerLoss", "reason": REASON, "target": {"ledgers": ["7"]}}, "which needs both"),
        (
            {"type": "AcceptLedgerLoss", "reason": REASON, "target": OF_LEDGERS | {"ledgers": ["L7"]}},
            "'L7' is not the id of",
        ),
        (
            {"type": "AcceptLedgerLoss", "reason": REASON, "target": OF_LEDGERS | {"ledgers": ["9223372036854775808"]}},
            "above 9223372036854775807",
        ),
        ({"target": OF_LEDGERS | {"bookie": "ledgers-zone-a-0"}}, "belong to AcceptLedgerLoss"),
    ],
)
def test_a_bad_operation_is_refused_with_a_sentence_and_a_good_one_taken(
    kubeconfig: str, changes: dict[str, Any], words: str
) -> None:
    said = answer(kubeconfig, "POST", "", manifest(**changes))

    assert (words in said) if words else said == ""


def test_the_spec_of_an_operation_never_changes(kubeconfig: str) -> None:
    assert answer(kubeconfig, "POST", "", manifest(), is_tried=False) == ""
    stored = kube_tools.kubectl("get", "bko", "tried", "-n", NAMESPACE, "-o", "jsonpath={.metadata.resourceVersion}")

    edited = manifest(reason="another one")
    edited["metadata"]["resourceVersion"] = stored.strip()

    assert "never changes" in answer(kubeconfig, "PUT", "tried", edited)


@pytest.fixture(scope="module")
def approvers(kubeconfig: str) -> Iterator[None]:
    """The chart's policy and its two roles for people, each bound to a group: `editors` and `owners`."""
    chart = str(ROOT / "charts" / "bookie-operator")
    values = ("--set", "operations.lossApprovers={owners}", "--set", "operations.roles=true")
    watched = ("--set", f"watch.namespaces={{{NAMESPACE}}}")
    template = ("--namespace", NAMESPACE, *values, *watched, "--show-only", "templates/operations.yaml")
    rendered = kube_shell.run(kube_tools.helm_path(), "template", "rules", chart, *template, timeout_s=120.0)
    kube_tools.kubectl("apply", "-f", "-", text_in=rendered)
    for group, role in (("editors", "bookie-operations-editor"), ("owners", "bookie-loss-approver")):
        bound = (f"--role={NAMESPACE}-rules-{role}", f"--group={group}")
        kube_tools.kubectl("create", "rolebinding", group, "--namespace", NAMESPACE, *bound)
    operation = manifest(type="ApproveRegeneration", reason=REASON, evidence=EVIDENCE)
    # A policy counts a moment after it was taken.
    wait_support.wait_until(
        lambda: "only members of" in refusal("editors", operation), "refusal", timeout_s=wait_support.patient(60)
    )
    yield
    kube_tools.kubectl("delete", "--ignore-not-found", "-f", "-", text_in=rendered)


def refusal(group: str, operation: Manifest) -> str:
    """ "" when the API server takes `operation` from a member of `group`, else its sentence."""
    named = operation | {"metadata": operation["metadata"] | {"name": "asked"}}
    return told((group,), "create", "--dry-run=server", "-f", "-", text_in=json.dumps(named))


def told(groups: Iterable[str], *words: str, text_in: str | None = None) -> str:
    """ "" when the API server does for a member of `groups` what these words to kubectl ask for, else its sentence."""
    who = ("--as=jane", *(f"--as-group={one}" for one in (*groups, "system:authenticated")))
    try:
        kube_tools.kubectl(*words, "--namespace", NAMESPACE, *who, text_in=text_in)
    except CommandFailed as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", EXPLAINED_TYPES)
def test_only_who_the_chart_names_may_give_data_up(approvers: None, kind: str) -> None:
    operation = manifest(**{"type": kind, "reason": REASON, **GIVES_UP[kind]})

    assert refusal("owners", operation) == ""
    for group in ("editors", "system:masters"):
        assert "only members of owners may create them" in refusal(group, operation)


def is_allowed(group: str, verb: str, resource: str) -> bool:
    """What the API server's authorizer says."""
    asked = {"group": names.GROUP, "resource": resource, "verb": verb, "namespace": NAMESPACE}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "jane", "groups": [group], "resourceAttributes": asked},
    }
    told = kube_tools.kubectl("create", "-f", "-", "-o", "json", text_in=json.dumps(review))
    return bool(json.loads(told)["status"]["allowed"])


def test_who_may_not_give_data_up_creates_every_other_operation(approvers: None) -> None:
    assert refusal("editors", manifest()) == ""


@pytest.mark.parametrize("group", ["editors", "owners"])
def test_who_creates_operations_edits_no_cluster(approvers: None, group: str) -> None:
    assert is_allowed(group, "create", names.OPERATION_PLURAL)
    assert not any(is_allowed(group, verb, names.PLURAL) for verb in ("create", "update", "patch", "delete"))


def test_the_annotation_that_approves_is_for_who_may_give_data_up(approvers: None) -> None:
    """Who may edit clusters may edit all else of them, also of one that has it."""
    cluster = yaml.safe_load((ROOT / "examples" / "bookiecluster.yaml").read_text(encoding="utf-8"))
    cluster["metadata"] = {"name": "tried", "namespace": NAMESPACE}
    kube_tools.kubectl("create", "-f", "-", text_in=json.dumps(cluster))
    editor, owner = ("system:masters",), ("system:masters", "owners")
    approve = ("annotate", "--overwrite", names.KIND, "tried", f"{names.APPROVED_EVIDENCE}={EVIDENCE}")
    another = (*approve[:-1], f"{names.APPROVED_EVIDENCE}={EVIDENCE[::-1]}")
    refused = "only members of owners may set it"
    cluster["metadata"] |= {"name": "made", "annotations": {names.APPROVED_EVIDENCE: EVIDENCE}}
    make = ("create", "--dry-run=server", "-f", "-")

    assert refused in told(editor, *make, text_in=json.dumps(cluster))
    assert told(owner, *make, text_in=json.dumps(cluster)) == ""
    assert refused in told(editor, *approve)
    assert told(owner, *approve) == ""
    assert told(editor, "label", names.KIND, "tried", "edited=yes") == ""
    assert refused in told(editor, *another)
    assert told(editor, "annotate", names.KIND, "tried", f"{names.APPROVED_EVIDENCE}-") == ""
