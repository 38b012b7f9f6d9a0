"""spec.autorecovery: what runs, that it is set up as the bookies are, and that it touches none of them."""

from pathlib import Path
from typing import Any

import pytest

import operator_support as make
import settings_support
from bookie.cli import main, security_settings
from bookie.cli.autorecovery_run import _address, _options
from bookie.ports.network import Address
from bookie_operator.model import names
from bookie_operator.resources import fleet, settings
from pod_security_support import violations

ON = {"enabled": True}
NAME = "ledgers-autorecovery"
SECURED: dict[str, Any] = {
    "security": {
        "tls": {"mode": "Required", "secretName": "bookies-tls"},
        "authentication": {"mode": "Required", "secretName": "bookies-users"},
    },
    "metadataService": make.spec()["metadataService"]
    | {"security": {"secretName": "zookeeper", "authentication": "SASL", "tls": "Mutual"}},
}
JAAS = """
Bookie { org.apache.zookeeper.server.auth.DigestLoginModule required user_bookkeeper="open"; };
BookKeeper { org.apache.zookeeper.server.auth.DigestLoginModule required username="bookkeeper" password="open"; };
"""
Manifest = dict[str, Any]


def children(**changes: Any) -> dict[tuple[str, str], Manifest]:
    found = fleet.everything(make.cluster(**changes), make.IMAGE)
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def deployment(wanted: Manifest | None = None, **changes: Any) -> Manifest:
    return children(autorecovery=ON | (wanted or {}), **changes)[("Deployment", NAME)]


def pod(wanted: Manifest | None = None, **changes: Any) -> Manifest:
    out: Manifest = deployment(wanted, **changes)["spec"]["template"]["spec"]
    return out


def arguments(wanted: Manifest | None = None, **changes: Any) -> Any:
    """What `bookie` makes of the container's arguments."""
    (container,) = pod(wanted, **changes)["containers"]
    words = [word.replace("$(POD_NAME)", f"{NAME}-6d8f7c9b5-x2x4z") for word in container["args"]]
    assert container["command"] == ["bookie"]
    return main.parser_for(words).parse_args(words)


def test_nothing_runs_unless_it_is_asked_for_and_no_other_child_depends_on_it() -> None:
    without, with_it = children(), children(autorecovery=ON)

    assert set(with_it) - set(without) == {("Deployment", NAME)}
    assert {key: with_it[key] for key in without} == without, "else every bookie would restart"


def test_the_command_is_one_that_the_bookies_image_understands() -> None:
    found = arguments({"lossDelay": "7m"}, repair={"copyRate": "50Mi"})
    options = _options(found)

    assert found.name == f"{NAME}-6d8f7c9b5-x2x4z", "each process has a name of its own in the vote"
    assert (options.loss_delay_ms, options.bytes_per_s) == (420_000, 50 << 20)
    assert found.config == f"{names.SETTINGS_DIR}/{names.SETTINGS_FILE}"
    assert _options(arguments()).loss_delay_ms == 600_000, "longer than a bookie's restart"


def test_its_figures_are_where_its_probes_ask() -> None:
    network = {"ports": {"metrics": 9191}}
    (container,) = pod(network=network)["containers"]

    assert _address(arguments(network=network).metrics) == Address("::", 9191)
    assert container["ports"] == [{"name": "metrics", "containerPort": 9191, "protocol": "TCP"}]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/metrics", "port": "metrics"}


@pytest.mark.parametrize("changes", [{}, SECURED], ids=["open", "secured"])
def test_settings_and_secrets_reach_it_as_they_reach_bookies(changes: Manifest) -> None:
    bookie: Manifest = children(**changes)[("StatefulSet", "ledgers-zone-a")]["spec"]["template"]["spec"]
    mine = pod(**changes)
    kept = ("configMap", "secret")
    files = [one for one in bookie["volumes"] if set(kept) & set(one) and one["name"] != names.ADMIN_VOLUME]
    places = {one["name"]: one for one in bookie["containers"][0]["volumeMounts"]}

    assert [one for one in mine["volumes"] if set(kept) & set(one)] == files
    mounts = [one for one in mine["containers"][0]["volumeMounts"] if one["name"] != "bookie-tmp"]
    assert mounts == [places[one["name"]] for one in files]
    assert len(files) == (4 if changes else 1)


def test_a_client_of_these_settings_encrypts_and_proves_itself(tmp_path: Path) -> None:
    text = settings.config_map(make.cluster(**SECURED))["data"][names.SETTINGS_FILE]
    (tmp_path / "jaas.conf").write_text(JAAS)
    loaded = settings_support.load(text.replace(names.SASL_DIR, str(tmp_path)), folder=tmp_path)

    found = security_settings.client_options(loaded)

    assert found["tls"] is not None
    assert (found["sasl_user"], found["sasl_password"].reveal()) == ("bookkeeper", "open")


def test_it_sleeps_with_the_fleet() -> None:
    assert deployment({"replicas": 3})["spec"]["replicas"] == 3
    assert deployment({"replicas": 3}, lifecycle={"hibernate": True})["spec"]["replicas"] == 0


def test_it_keeps_the_restricted_profile_and_has_no_token() -> None:
    assert violations(pod()) == []
    assert pod()["automountServiceAccountToken"] is False


def test_none_of_its_pods_is_taken_for_a_bookie() -> None:
    """Kubernetes ends their names in five characters of chance, which may all be digits."""
    assert names.parse_pod("ledgers", f"{NAME}-6769489654-24567") is None
    assert names.parse_pod("ledgers", "ledgers-autorecovery-0") == ("autorecovery", 0), "a zone may be called so"
