"""Pods of strangers, in the bookies' own namespace and in two others, try every call of every admin port.

They have the bookie's image, so that they speak its language; no certificate, one of their own making, or the one that
a bookie holds. Nothing that they do changes anything or shows any evidence, and the operator and `kubectl exec` go on.
"""

import json
from collections.abc import Iterator

import pytest

import kube_images
import kube_load
import kube_tools
import wait_support
from fleet_kubernetes import KubernetesStage
from kube_setup import NAMESPACE

pytestmark = pytest.mark.cluster

ELSEWHERE = ("strangers-one", "strangers-two")
POD = "stranger"

# Runs in the stranger's pod: every call, on both ports, with each certificate; one line of JSON with who was answered.
ATTACK = """
import datetime, json, os, sys, grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from bookie.rpc import admin_pb2, admin_pb2_grpc
host, uid, given = sys.argv[1], sys.argv[2], sys.argv[3]
key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "operator")])
san = x509.SubjectAlternativeName(
    [x509.UniformResourceIdentifier("bookie://cluster/%s/operator/bookie-system" % uid)])
now = datetime.datetime.now(datetime.timezone.utc)
made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    .serial_number(1).not_valid_before(now - datetime.timedelta(hours=1))
    .not_valid_after(now + datetime.timedelta(hours=1)).add_extension(san, critical=False).sign(key, hashes.SHA256()))
pem = serialization.Encoding.PEM
mine = (key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()), made.public_bytes(pem))
ca, their_key, their_certificate = (part.encode() for part in json.loads(given))
shown = {"nobody": (None, None), "itself": mine, "a bookie": (their_key, their_certificate)}
options = (("grpc.ssl_target_name_override", uid + ".bookies.bookie.dev"), ("grpc.use_local_subchannel_pool", 1))
channels = {"plain": grpc.insecure_channel(host + ":3182"), "plain on TLS": grpc.insecure_channel(host + ":3184")}
for who, (k, c) in shown.items():
    channels[who] = grpc.secure_channel(host + ":3184", grpc.ssl_channel_credentials(ca, k, c), options=options)
answered, refused = [], 0
for who, channel in channels.items():
    stub = admin_pb2_grpc.AdminStub(channel)
    for method in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods:
        try:
            answer = getattr(stub, method.name)(
                getattr(admin_pb2, method.input_type.name)(), timeout=5,
                metadata=(("authorization", "Bearer guess"),))
            list(answer) if method.server_streaming else answer
            answered.append([who, method.name])
        except grpc.RpcError as error:
            code = error.code().name
            assert code in ("UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED"), (who, method.name, error)
            refused += 1
print(json.dumps({"answered": answered, "refused": refused}))
"""


def run_in(namespace: str, script: str, *arguments: str) -> str:
    return kube_tools.kubectl(
        "--namespace", namespace, "exec", POD, "--", "python", "-c", script, *arguments, timeout_s=300.0
    )


@pytest.fixture(scope="module")
def strangers(stage: KubernetesStage) -> Iterator[tuple[str, ...]]:
    """A pod in each namespace; the namespaces' names."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": POD,
                    "image": kube_load.name_in_cluster(kube_images.BOOKIE_IMAGE),
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", "3600"],
                }
            ],
        },
    }
    try:
        for namespace in ELSEWHERE:
            kube_tools.kubectl("create", "namespace", namespace)
        for namespace in (NAMESPACE, *ELSEWHERE):
            kube_tools.kubectl("--namespace", namespace, "apply", "-f", "-", text_in=json.dumps(pod))
        for namespace in (NAMESPACE, *ELSEWHERE):
            kube_tools.kubectl(
                "--namespace", namespace, "wait", "--for=condition=Ready", f"pod/{POD}", "--timeout=180s"
            )
        yield (NAMESPACE, *ELSEWHERE)
    finally:
        kube_tools.kubectl("--namespace", NAMESPACE, "delete", "pod", POD, "--ignore-not-found")
        kube_tools.kubectl("delete", "namespace", *ELSEWHERE, "--ignore-not-found", timeout_s=300.0)


def test_pods_of_strangers_change_nothing_and_read_no_evidence(
    stage: KubernetesStage, strangers: tuple[str, ...]
) -> None:
    resource = stage.resource()
    name, uid = resource["metadata"]["name"], resource["metadata"]["uid"]
    bookie = resource["status"]["bookies"][0]["name"]
    address = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pod", bookie)["status"]["podIP"]
    # What a bookie holds itself, stolen: a server's certificate, and whom it trusts.
    read = "import sys;print(open('/etc/bookie-admin-tls/'+sys.argv[1]).read())"
    stolen = [
        stage.kubectl("exec", bookie, "--", "python", "-c", read, file) for file in ("ca.crt", "tls.key", "tls.crt")
    ]

    before = json.loads(stage.kubectl("exec", bookie, "--", "bookie", "integrity", "report", "--json"))
    for namespace in strangers:
        found = json.loads(run_in(namespace, ATTACK, address, uid, json.dumps(stolen)).splitlines()[-1])
        assert found["answered"] == [], (namespace, name)
        assert found["refused"] == 5 * len(stage_calls())

    after = stage.resource()["status"]
    assert [one["state"] for one in after["bookies"]] == ["Serving"] * len(after["bookies"])
    ours = json.loads(stage.kubectl("exec", bookie, "--", "bookie", "integrity", "report", "--json"))
    assert (ours["state"], ours["readOnly"]) == ("SERVING", False)
    assert ours["operatorEpochSeen"] == before["operatorEpochSeen"]
    told = stage.kubectl("logs", bookie)
    assert "admin call=SetMode" not in told
    assert "refused door=admin" in told


def test_what_somebody_else_writes_into_the_status_goes_with_the_next_pass(stage: KubernetesStage) -> None:
    """To an API server each manager's fields are his own: applied over, a stranger's stay, and half of them fail."""
    forged = {
        "deletion": {"bookies": 3, "claims": 9, "bytes": 1, "going": 9, "since": "2026-11-29T22:05:00Z"},
        "hibernation": {"state": "Hibernated", "since": "2026-11-29T22:05:00Z"},
    }
    name = stage.resource()["metadata"]["name"]
    patch = json.dumps({"status": forged})
    stage.kubectl("patch", "bookiecluster", name, "--subresource=status", "--type=merge", "--patch", patch)

    def is_true() -> bool:
        found = stage.status()
        return not forged.keys() & found.keys() and [one["state"] for one in found["bookies"]] == ["Serving"] * 4

    wait_support.wait_until(is_true, "the status to be the operator's", timeout_s=wait_support.patient(120))


def stage_calls() -> list[str]:
    from bookie.rpc import admin_pb2

    return [method.name for method in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods]


def test_the_authority_s_key_is_in_the_operator_s_namespace_only(stage: KubernetesStage) -> None:
    found = kube_tools.kubectl_json("get", "secrets", "--all-namespaces")
    held = [
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in found["items"]
        if one["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "bookie-operator"
    ]

    assert sorted(held) == [(NAMESPACE, "bookie-admin-certificates"), ("bookie-system", "bookie-operator-authorities")]


@pytest.mark.parametrize(
    ("verb", "secret", "namespace", "answer"),
    [
        ("get", "bookie-operator-authorities", "bookie-system", "yes"),
        ("patch", "bookie-admin-certificates", NAMESPACE, "yes"),
        ("get", "another", NAMESPACE, "no"),
        ("patch", "another", NAMESPACE, "no"),
        ("get", "another", "bookie-system", "no"),
        ("list", "", NAMESPACE, "no"),
        ("list", "", "bookie-system", "no"),
        ("get", "bookie-admin-certificates", "kube-system", "no"),
    ],
)
def test_the_operator_s_account_reaches_two_secrets_and_no_other(
    stage: KubernetesStage, verb: str, secret: str, namespace: str, answer: str
) -> None:
    what = f"secrets/{secret}" if secret else "secrets"
    account = "system:serviceaccount:bookie-system:bookie-operator"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": account,
            "resourceAttributes": {"namespace": namespace, "verb": verb, "resource": "secrets", "name": secret},
        },
    }

    review = json.loads(kube_tools.kubectl("create", "-o", "json", "-f", "-", text_in=json.dumps(body)))

    assert ("yes" if review["status"].get("allowed") else "no") == answer, what
