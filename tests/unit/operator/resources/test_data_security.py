"""spec.security: what a bookie makes of the settings, and that every pair of neighbours on the way can talk."""

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

import operator_support as make
import settings_support
from bookie.cli import security_settings
from bookie.server.security import SecurityOptions
from bookie_operator.model import names
from bookie_operator.resources import fleet, settings

JAAS = """
Bookie { org.apache.zookeeper.server.auth.DigestLoginModule required user_bookkeeper="open" user_app="sesame"; };
BookKeeper { org.apache.zookeeper.server.auth.DigestLoginModule required username="bookkeeper" password="open"; };
"""
MODES = ("Disabled", "Permissive", "Required")


def security(tls: str = "Disabled", authentication: str = "Disabled", **more: Any) -> dict[str, Any]:
    return {
        "tls": {"mode": tls, "secretName": "bookies-tls", **more},
        "authentication": {"mode": authentication, "secretName": "bookies-users"},
    }


def options(folder: Path, wanted: dict[str, Any]) -> SecurityOptions:
    """What a bookie makes of the file that the operator writes, its Secrets mounted."""
    text = settings.config_map(make.cluster(security=wanted))["data"][names.SETTINGS_FILE]
    (folder / "jaas.conf").write_text(JAAS)
    return security_settings.security_options(
        settings_support.load(text.replace(names.SASL_DIR, str(folder)), folder=folder)
    )


def pod(wanted: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = fleet.everything(make.cluster(security=wanted), make.IMAGE)[-1]
    return made["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def test_disabled_is_nothing(tmp_path: Path) -> None:
    assert options(tmp_path, security()) == SecurityOptions()
    assert pod(security()) == pod({})


def test_required_is_tls_for_clients_and_among_bookies(tmp_path: Path) -> None:
    found = options(tmp_path, security("Required", clientCertificates=True, verifyHostNames=True))

    assert found.tls is not None
    assert found.peer_tls is not None
    assert (found.needs_tls, found.tls.needs_client_certificate) == (True, True)
    assert found.tls.files == ("/etc/bookie-tls/tls.key", "/etc/bookie-tls/tls.crt", "/etc/bookie-tls/ca.crt")
    assert (found.peer_tls.checks_host_name, found.peer_tls.may_be_plain) == (True, False)
    assert found.peer_tls.key_store, "a bookie shows its certificate, since it is asked for one"


def test_the_users_and_the_bookies_own_name_come_from_the_secret(tmp_path: Path) -> None:
    permissive, required = (options(tmp_path, security(authentication=mode)) for mode in ("Permissive", "Required"))

    assert (permissive.provider, permissive.peer_user) == ("none", "bookkeeper")
    assert (required.provider, sorted(required.users), required.peer_user) == (
        "sasl",
        ["app", "bookkeeper"],
        "bookkeeper",
    )


def can_call(caller: SecurityOptions, called: SecurityOptions) -> bool:
    """Whether a bookie with the options of `caller` reaches one with those of `called`, to repair itself."""
    is_encrypted = caller.peer_tls is not None and called.tls is not None
    if caller.peer_tls is not None and called.tls is None and not caller.peer_tls.may_be_plain:
        return False
    if called.needs_tls and not is_encrypted:
        return False
    return called.provider == "none" or caller.peer_user in called.users


@pytest.mark.parametrize("part", ["tls", "authentication"])
def test_on_the_way_from_mode_to_mode_and_back_every_bookie_reaches_every_other(part: str, tmp_path: Path) -> None:
    every = {mode: options(tmp_path, security(**{part: mode})) for mode in MODES}

    for step in pairwise(MODES):
        for one, other in product(step, step):
            assert can_call(every[one], every[other]), (one, other)
    assert not all(can_call(every[one], every[other]) for one, other in product(MODES, MODES)), "hence no jump"


def test_pods_mount_the_secrets_and_the_operator_reads_none() -> None:
    made = pod(security("Permissive", "Permissive"))

    secrets = {one["name"]: one["secret"] for one in made["volumes"] if one["name"] in ("bookie-tls", "bookie-sasl")}
    mounts = {one["name"]: one for one in made["containers"][0]["volumeMounts"]}
    assert secrets == {
        "bookie-tls": {"secretName": "bookies-tls", "defaultMode": 0o440},
        "bookie-sasl": {"secretName": "bookies-users", "defaultMode": 0o440},
    }
    assert mounts["bookie-tls"] == {"name": "bookie-tls", "mountPath": "/etc/bookie-tls", "readOnly": True}
    assert mounts["bookie-sasl"]["readOnly"] is True


def test_without_a_secret_of_the_users_a_pod_mounts_its_clusters_part_of_the_operators() -> None:
    wanted = {"tls": {"mode": "Permissive"}}
    (volume,) = [one for one in pod(wanted)["volumes"] if one["name"] == "bookie-tls"]
    told = settings.properties(make.cluster(security=wanted).spec)

    assert volume["secret"]["secretName"] == "bookie-data-certificates"
    assert [(item["key"], item["path"]) for item in volume["secret"]["items"]] == [
        ("ledgers.tls.crt", "tls.crt"),
        ("ledgers.tls.key", "tls.key"),
        ("ledgers.ca.crt", "ca.crt"),
    ]
    assert told["tlsHostnameVerificationEnabled"] == "true"
