"""Certificates in Secrets: who finds which key where, what is renewed when, and what a cluster leaves behind."""

import asyncio
import base64
import datetime as dt
import os
import re
from collections.abc import Coroutine
from typing import Any

import pytest

import operator_support as make
from bookie_operator.gateways.kube import KubeError, KubeForbidden, Manifest
from bookie_operator.identities import Identities
from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from identity_support import Secrets

AUTHORITIES, CERTIFICATES = ("system", names.ADMIN_AUTHORITIES), ("data", names.ADMIN_CERTIFICATES)
KEY = b"-----BEGIN PRIVATE KEY-----"


class Story:
    def __init__(self, namespace: str = "system", secrets: Secrets | None = None, store: Any = None) -> None:
        self.secrets = secrets or Secrets()
        self.now = dt.datetime.now(dt.UTC)
        self.identities = Identities(
            self.secrets,
            store or self.secrets.store,
            self.secrets,
            lambda: int(self.now.timestamp() * 1000),
            os.urandom,
            namespace=namespace,
            process="operator-pod_1",
        )

    def ensure(self, cluster: Cluster | None = None) -> "list[tuple[str, str]]":
        """What was written."""
        self.secrets.writes.clear()
        run(self.identities.ensure(cluster or make.cluster()))
        return list(self.secrets.writes)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def other(name: str = "logs", uid: str = "uid-of-logs") -> Cluster:
    manifest = make.manifest()
    manifest["metadata"] |= {"name": name, "uid": uid}
    return make.clusters.parse(manifest)


def test_the_authority_s_key_stays_in_the_operator_s_namespace() -> None:
    story = Story()

    assert story.ensure() == [AUTHORITIES, CERTIFICATES]

    cluster = make.cluster()
    entry = f"{cluster.namespace}_{cluster.name}_{cluster.uid}"
    authority = story.secrets.text(AUTHORITIES, entry)
    (secret,) = re.findall(rb"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----", authority, re.DOTALL)
    published = b"".join(story.secrets.text(CERTIFICATES, key) for key in story.secrets.data[CERTIFICATES])
    assert published.count(KEY) == 1
    assert secret not in published
    assert story.secrets.text(CERTIFICATES, "ledgers.clients").decode() == (
        f"bookie://cluster/{cluster.uid}/operator/system\n"
    )


def test_a_second_look_writes_nothing_and_another_process_takes_over_what_is_stored() -> None:
    story = Story()
    story.ensure()

    assert story.ensure() == []
    assert Story(secrets=story.secrets).ensure() == []


def test_two_clusters_of_a_namespace_have_authorities_of_their_own_and_touch_nothing_of_each_other() -> None:
    story = Story()
    story.ensure()
    before = dict(story.secrets.data[CERTIFICATES])

    story.ensure(other())

    after = story.secrets.data[CERTIFICATES]
    assert {key: after[key] for key in before} == before
    assert story.secrets.text(CERTIFICATES, "logs.ca.crt") != story.secrets.text(CERTIFICATES, "ledgers.ca.crt")
    assert story.secrets.owners == {make.cluster().uid: False, "uid-of-logs": False}
    assert story.ensure() == []


def test_a_cluster_that_is_gone_leaves_no_key_behind() -> None:
    story = Story()
    story.ensure()
    story.ensure(other())

    run(story.identities.forget("data", "ledgers"))

    assert [key.split("_")[1] for key in story.secrets.data[AUTHORITIES]] == ["logs"]
    assert {key.split(".")[0] for key in story.secrets.data[CERTIFICATES]} == {"logs"}
    assert story.ensure(other()) == [], "the other cluster's stand as before"


def test_a_secret_that_went_with_its_cluster_is_not_made_anew() -> None:
    story = Story()
    story.ensure()
    del story.secrets.data[CERTIFICATES]
    story.secrets.writes.clear()

    run(story.identities.forget("data", "ledgers"))

    assert story.secrets.writes == [AUTHORITIES]


def test_a_secret_that_goes_while_its_cluster_is_forgotten_is_not_made_anew() -> None:
    story = Story()
    story.ensure()
    story.secrets.is_raced = True

    with pytest.raises(KubeError):
        run(story.identities.forget("data", "ledgers"))


def test_a_cluster_of_the_same_name_that_comes_later_gets_another_authority() -> None:
    story = Story()
    story.ensure(other(uid="first"))
    old = story.secrets.text(CERTIFICATES, "logs.ca.crt")

    story.ensure(other(uid="second"))

    assert list(story.secrets.data[AUTHORITIES]) == ["data_logs_second"]
    assert story.secrets.text(CERTIFICATES, "logs.ca.crt") != old
    assert b"/second/" in story.secrets.text(CERTIFICATES, "logs.clients")


@pytest.mark.parametrize("damage", [None, "", "%%%", base64.b64encode(b"junk").decode()])
@pytest.mark.parametrize("file", ["tls.crt", "tls.key", "ca.crt", "clients"])
def test_a_published_file_that_is_damaged_or_removed_is_made_good(file: str, damage: str | None) -> None:
    story = Story()
    story.ensure()
    manager, _ = story.secrets.data[CERTIFICATES].pop(f"ledgers.{file}")
    if damage is not None:
        story.secrets.data[CERTIFICATES][f"ledgers.{file}"] = (manager, damage)

    assert story.ensure() == [CERTIFICATES]
    assert story.ensure() == []


def test_an_authority_that_cannot_be_read_is_made_anew_and_everything_with_it() -> None:
    story = Story()
    story.ensure()
    (key,) = story.secrets.data[AUTHORITIES]
    story.secrets.data[AUTHORITIES][key] = ("", base64.b64encode(b"junk").decode())

    assert story.ensure() == [AUTHORITIES, CERTIFICATES]


def test_an_operator_elsewhere_takes_the_bookies_over() -> None:
    story = Story()
    story.ensure()

    moved = Story("elsewhere", story.secrets)

    assert moved.ensure() == [("elsewhere", names.ADMIN_AUTHORITIES), CERTIFICATES]
    assert b"/operator/elsewhere" in story.secrets.text(CERTIFICATES, "ledgers.clients")


def test_each_thing_is_renewed_in_its_own_time() -> None:
    story = Story()
    story.ensure()
    first = story.secrets.wallet[make.cluster().uid]
    began = story.now

    story.now = began + dt.timedelta(minutes=50)
    assert story.ensure() == []
    assert story.secrets.wallet[make.cluster().uid] == first
    story.now = began + dt.timedelta(minutes=70)
    assert story.ensure() == []
    assert story.secrets.wallet[make.cluster().uid].certificate != first.certificate
    story.now = began + dt.timedelta(days=11)
    assert story.ensure() == [CERTIFICATES]
    story.now = began + dt.timedelta(days=246)
    assert story.ensure() == [AUTHORITIES, CERTIFICATES]
    assert story.secrets.text(CERTIFICATES, "ledgers.ca.crt").count(b"BEGIN CERTIFICATE") == 2
    story.now = began + dt.timedelta(days=366)
    assert story.ensure() == [AUTHORITIES, CERTIFICATES]
    assert story.secrets.text(CERTIFICATES, "ledgers.ca.crt").count(b"BEGIN CERTIFICATE") == 1


DATA, TRUST = ("data", names.DATA_CERTIFICATES), ("data", "ledgers-ca")


def encrypted(**tls: Any) -> Cluster:
    return make.cluster(security={"tls": {"mode": "Required", **tls}})


def test_certificates_of_the_data_port_have_an_authority_of_their_own_that_commands_nothing() -> None:
    story = Story()

    assert story.ensure(encrypted()) == [AUTHORITIES, TRUST, DATA, AUTHORITIES, CERTIFICATES]

    assert story.ensure(encrypted()) == []
    published = b"".join(story.secrets.text(DATA, key) for key in story.secrets.data[DATA])
    assert published.count(KEY) == 1
    assert sorted(story.secrets.data[DATA]) == ["ledgers.ca.crt", "ledgers.tls.crt", "ledgers.tls.key"]
    assert story.secrets.text(DATA, "ledgers.ca.crt") != story.secrets.text(CERTIFICATES, "ledgers.ca.crt")
    assert story.secrets.data[TRUST]["ca.crt"][1].encode() == story.secrets.text(DATA, "ledgers.ca.crt")
    assert KEY.decode() not in story.secrets.data[TRUST]["ca.crt"][1]


@pytest.mark.parametrize("cluster", [make.cluster(), encrypted(secretName="theirs"), encrypted(mode="Disabled")])
def test_nothing_is_made_where_the_user_brings_a_secret_or_wants_none(cluster: Cluster) -> None:
    assert Story().ensure(cluster) == [AUTHORITIES, CERTIFICATES]


def test_another_cluster_domain_is_another_certificate_of_the_data_port() -> None:
    story = Story()
    story.ensure(encrypted())
    elsewhere = make.cluster(security={"tls": {"mode": "Required"}}, network={"clusterDomain": "other.local"})

    assert story.ensure(elsewhere) == [DATA]
    assert story.ensure(elsewhere) == []


def test_a_cluster_that_is_gone_leaves_no_key_of_its_data_port_behind() -> None:
    story = Story()
    story.ensure(encrypted())
    story.ensure(other())

    run(story.identities.forget("data", "ledgers"))

    assert [key.split("_")[1] for key in story.secrets.data[AUTHORITIES]] == ["logs"]
    assert not story.secrets.data[DATA]


@pytest.mark.parametrize("damaged", [TRUST, DATA])
def test_what_clients_and_bookies_read_is_made_good(damaged: tuple[str, str]) -> None:
    story = Story()
    story.ensure(encrypted())
    story.secrets.data[damaged] = {}

    assert story.ensure(encrypted()) == [damaged]


def test_an_authority_that_somebody_else_stored_meanwhile_is_not_overwritten() -> None:
    story = Story()
    story.ensure(other())  # the Secret exists
    story.secrets.is_raced = True

    with pytest.raises(KubeError, match="409"):
        story.ensure()
    assert [key.split("_")[1] for key in story.secrets.data[AUTHORITIES]] == ["logs"]


def test_an_authority_is_stored_before_anything_it_signed_is_shown() -> None:
    async def refuse(manifest: Manifest, live: Manifest | None, manager: str) -> None:
        raise KubeForbidden("apply Secret", 403, "forbidden")

    story = Story(store=refuse)
    with pytest.raises(KubeError):
        story.ensure()
    assert story.secrets.wallet == {}
