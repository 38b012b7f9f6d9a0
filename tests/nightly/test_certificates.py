"""Certificates of a fleet that serves nothing in plain, renewed while it runs: the operator's own, over the life of an
authority and its successor; and a real cert-manager's."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import children
import kube_parts
import kube_tools
import secrets_support
from bookie_operator.certificates import authority as authorities
from bookie_operator.model import names
from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from kube_setup import NAMESPACE, OPERATOR_NAMESPACE
from scenario_support import own_fleet, under_writers

pytestmark = pytest.mark.cluster

NAME = "renewed"
SETTINGS = "--config /etc/bookie/bookie.properties"
WRITE = "echo one | kubectl exec -i {pod} -- bookie ledger write {settings}"
TRUSTS = {
    "BOOKIE_TLS_PROVIDER_FACTORY_CLASS": "org.apache.bookkeeper.tls.TLSContextFactory",
    "BOOKIE_TLS_TRUST_STORE_TYPE": "PEM",
    "BOOKIE_TLS_TRUST_STORE": "/trust/ca.crt",
    "BOOKIE_TLS_HOSTNAME_VERIFICATION_ENABLED": "true",
}
ADMIN, DATA = "", "_data"  # the ends of the authorities' entries
_BEGIN = b"-----BEGIN CERTIFICATE-----"


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    security = {"tls": {"mode": "Required"}}
    with own_fleet(stage, tmp_path_factory.mktemp(NAME), NAME, security=security, replicas=3) as made:
        trust = {"configMap": {"name": names.data_authority(NAME)}}
        secrets_support.writers_have(made, trust, "/trust", TRUSTS)
        yield made


@pytest.fixture
def fleet(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


# ---- time passes -----------------------------------------------------------------------------------------------------


def older(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, *, days: int) -> x509.Certificate:
    """The same certificate as `key` would have signed it so many days before."""
    age = dt.timedelta(days=days)
    builder = (
        x509.CertificateBuilder()
        .subject_name(certificate.subject)
        .issuer_name(certificate.issuer)
        .public_key(certificate.public_key())
        .serial_number(certificate.serial_number)
        .not_valid_before(certificate.not_valid_before_utc - age)
        .not_valid_after(certificate.not_valid_after_utc - age)
    )
    for one in certificate.extensions:
        builder = builder.add_extension(one.value, critical=one.critical)
    return builder.sign(key, hashes.SHA256())


class Authority:
    """The authority of the data port (`DATA`) or of the admin port (`ADMIN`), and what it vouches for."""

    def __init__(self, fleet: Fleet, kind: str) -> None:
        uid = fleet.resource()["metadata"]["uid"]
        self.entry = f"{NAMESPACE}_{NAME}_{uid}{kind}"
        self.secret = names.DATA_CERTIFICATES if kind == DATA else names.ADMIN_CERTIFICATES
        self.folder = names.TLS_DIR if kind == DATA else names.ADMIN_TLS_DIR

    def is_older(self, *, days: int, leaf_days: int = 0) -> None:
        """So many days pass for the authority, and for the bookies' certificate, which was renewed meanwhile."""
        known = secrets_support.files_of(names.ADMIN_AUTHORITIES, OPERATOR_NAMESPACE)[self.entry]
        aged = tuple(
            authorities.KeyGeneration(one.key, older(one.certificate, one.key, days=days))
            for one in authorities.load(known).generations
        )
        leaf = x509.load_pem_x509_certificate(self.files()["tls.crt"])
        signer = next(one for one in aged if one.certificate.subject == leaf.issuer)
        text = authorities.dump(authorities.Authority(aged))
        secrets_support.change(names.ADMIN_AUTHORITIES, {self.entry: text}, OPERATOR_NAMESPACE)
        if leaf_days:
            pem = older(leaf, signer.key, days=leaf_days).public_bytes(serialization.Encoding.PEM)
            secrets_support.change(self.secret, {f"{NAME}.tls.crt": pem})

    def files(self) -> dict[str, bytes]:
        """What the operator has published for the bookies."""
        found = secrets_support.files_of(self.secret)
        return {file.removeprefix(f"{NAME}."): text for file, text in found.items() if file.startswith(f"{NAME}.")}

    def is_renewed(self, fleet: Fleet, *, generations: int, before: int | None) -> None:
        """Wait until so many authorities are trusted and the bookies' certificate is another one than that of serial
        `before` (None: whichever it is), and until each bookie has these files."""

        def is_so() -> bool:
            return self.files()["ca.crt"].count(_BEGIN) == generations and self.serial() != before

        fleet.sees(f"{self.secret} to have {generations} authorities and another certificate", is_so)
        for file in ("ca.crt", "tls.crt"):
            secrets_support.arrives(fleet, fleet.names(), f"{self.folder}/{file}", self.files()[file])

    def serial(self) -> int:
        return x509.load_pem_x509_certificate(self.files()["tls.crt"]).serial_number


def is_whole(fleet: Fleet) -> None:
    """Every bookie serves, the operator reaches each, and a client that begins now reaches them by TLS."""
    fleet.settled()
    fleet.is_written_to()
    for pod in fleet.names():
        print(fleet.types(WRITE.format(pod=pod, settings=SETTINGS)))


def test_the_operators_certificates_and_their_authority_are_renewed_over_a_year(fleet: Fleet) -> None:
    before, lives = secrets_support.restarts(fleet), fleet.incarnations()
    both = [Authority(fleet, kind) for kind in (DATA, ADMIN)]
    # A successor is published 120 days before the end, signs a week later, and is alone after a year.
    for days, leaf_days, generations in ((246, 11, 2), (8, 0, 2), (120, 0, 1)):
        shown = [one.serial() for one in both]
        for one in both:
            one.is_older(days=days, leaf_days=leaf_days)
        # An event: a fleet at rest is looked at whole each five minutes only (spec/operator.md#K35).
        fleet.types(f"kubectl annotate bookiecluster $NAME nightly/days={days} --overwrite")
        for one, serial in zip(both, shown, strict=True):
            one.is_renewed(fleet, generations=generations, before=serial if generations == 2 else None)
        secrets_support.arrives(fleet, [fleet.stage.writers], "/trust/ca.crt", both[0].files()["ca.crt"])
        is_whole(fleet)
        assert (secrets_support.restarts(fleet), fleet.incarnations()) == (before, lives), "no restart"
    leaf, trusted = (x509.load_pem_x509_certificate(both[0].files()[file]) for file in ("tls.crt", "ca.crt"))
    leaf.verify_directly_issued_by(trusted)  # by the successor: nobody trusts the first one any more
    uri = shlex.quote(fleet.resource()["spec"]["metadataService"]["uri"])
    fleet.is_refused(WRITE.format(pod=fleet.names()[0], settings=f"--metadata-service-uri {uri}"))


# ---- cert-manager ----------------------------------------------------------------------------------------------------

MANAGED = "managed"
CERTIFICATE = "managed-bookies"


@pytest.fixture
def cert_manager(stage: KubernetesStage, tmp_path: Path) -> Iterator[None]:
    """Its CRDs, and its controllers as a process of this machine."""
    crds = kube_parts.module_of("cert-manager", "github.com/cert-manager/cert-manager") / "deploy" / "crds"
    program = kube_parts.ensure("cert-manager")
    defined = [argument for one in sorted(crds.glob("cert-manager.io_*.yaml")) for argument in ("-f", str(one))]
    kube_tools.kubectl("apply", "--server-side", *defined)
    kube_tools.kubectl("wait", "--for=condition=Established", *defined, "--timeout=60s")
    log = stage.logs / "cert-manager.log"
    with contextlib.ExitStack() as stack, log.open("wb") as talk:
        stack.callback(kube_tools.kubectl, "delete", *defined, "--ignore-not-found")
        argv = [str(program), str(kube_tools.kubeconfig()), NAMESPACE]
        process = children.spawn(argv, stderr=talk)
        stack.callback(children.end, process, timeout_s=20.0)
        yield


def asks_for_certificates(fleet: str) -> str:
    """What a person applies: an authority of its own, and the Certificate of the page on security."""
    whose = f"*.{fleet}-bookies.{NAMESPACE}.svc.cluster.local"
    root = {"isCA": True, "commonName": "people", "secretName": "managed-root", "issuerRef": {"name": "managed-root"}}
    bookies = {
        "secretName": CERTIFICATE,
        "issuerRef": {"name": "managed-ca"},
        "usages": ["server auth", "client auth"],
        "dnsNames": [whose],
    }
    specs = [
        ("Issuer", "managed-root", {"selfSigned": {}}),
        ("Certificate", "managed-root", root),
        ("Issuer", "managed-ca", {"ca": {"secretName": "managed-root"}}),
        ("Certificate", CERTIFICATE, bookies),
    ]
    items = [
        {"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}} | {
            "spec": spec
        }
        for kind, name, spec in specs
    ]  # fmt: skip
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@pytest.fixture
def managed(stage: KubernetesStage, cert_manager: None, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet with a certificate of cert-manager's."""
    del cert_manager
    kube_tools.apply(asks_for_certificates(MANAGED))
    within = ("--namespace", NAMESPACE)
    kube_tools.kubectl(*within, "wait", f"certificate/{CERTIFICATE}", "--for=condition=Ready", "--timeout=180s")
    tls = {"mode": "Required", "secretName": CERTIFICATE, "verifyHostNames": True}
    try:
        with own_fleet(stage, tmp_path, MANAGED, security={"tls": tls}, replicas=3) as made:
            trust = {"secret": {"secretName": CERTIFICATE}}
            secrets_support.writers_have(made, trust, "/trust", TRUSTS)
            yield made
    finally:
        secrets_support.remove(CERTIFICATE, "managed-root")


@pytest.fixture
def managed_fleet(managed: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(managed, request)


def test_a_certificate_of_cert_manager_is_renewed_while_the_fleet_runs(managed_fleet: Fleet) -> None:
    fleet = managed_fleet
    before, lives = secrets_support.restarts(fleet), fleet.incarnations()
    was = secrets_support.files_of(CERTIFICATE)
    # What `cmctl renew` writes.
    issuing = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "a person asks for it"}
    patch = json.dumps([{"op": "add", "path": "/status/conditions/-", "value": issuing}])
    fleet.types(f"kubectl patch certificate {CERTIFICATE} --subresource=status --type=json --patch '{patch}'")
    fleet.sees("another certificate", lambda: secrets_support.files_of(CERTIFICATE)["tls.crt"] != was["tls.crt"])
    now = secrets_support.files_of(CERTIFICATE)
    secrets_support.arrives(fleet, fleet.names(), f"{names.TLS_DIR}/tls.crt", now["tls.crt"])
    is_whole(fleet)
    assert (secrets_support.restarts(fleet), fleet.incarnations()) == (before, lives), "no restart"
