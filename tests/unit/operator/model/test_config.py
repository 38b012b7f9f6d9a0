"""spec.config is judged by the bookie's own table, and as the bookie itself would judge it."""

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import operator_support as make
import settings_support
from bookie.base.errors import BadInput
from bookie.settings.table import BY_NAME, SETTINGS
from bookie_operator.model import config, reserved
from bookie_operator.plan import fleet
from bookie_operator.resources import settings as files


def problems(found: dict[str, str], **changes: Any) -> str:
    return "; ".join(config.problems(make.cluster(config=found, **changes).spec))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"flushIntervall": "1000"}, "flushIntervall is not a setting of bookies; is flushInterval meant?"),
        ({"whatever": "1"}, "whatever is not a setting of bookies: remove it"),
        ({"flushInterval": "soon"}, "flushInterval is 'soon' (spec.config), not a whole number"),
        ({"flushInterval": "0"}, "flushInterval is '0' (spec.config), at least 1"),
        ({"logLevel": "LOUD"}, "logLevel is 'LOUD' (spec.config), not one of DEBUG"),
        ({"diskUsageThreshold": "95"}, "diskUsageThreshold is 95.0, a share of the disk"),
        ({"minorCompactionThreshold": "0.9"}, "minorCompactionThreshold must be less than majorCompactionThreshold"),
        ({"skipReplayJournalInvalidRecord": "true"}, "never skipped; set it to false"),
        ({"tlsProviderFactoryClass": "com.example.Ours"}, "a class of somebody's own"),
        ({"httpServerEnabled": "true", "httpServerPort": "3181"}, "bookiePort and httpServerPort are both 3181"),
        ({"journalDirectories": "/tmp"}, "journalDirectories has a field of its own"),
        ({"journalDirectory": "/tmp"}, "journalDirectory has a field of its own"),
        ({"flushInterval": "1000\nregeneration=local"}, "the value of flushInterval cannot stand in a properties file"),
        ({"flushInterval": "1000\\"}, "the value of flushInterval cannot stand"),
        ({"logLevel": "${user}"}, "the value of logLevel cannot stand"),
        ({"x\nregeneration": "local"}, "cannot be the name of a setting"),
        ({"a=regeneration": "local"}, "cannot be the name of a setting"),
    ],
)
def test_what_is_wrong_is_told_with_the_setting_the_reason_and_what_to_try(found: dict[str, str], words: str) -> None:
    text = problems(found)

    assert words in text
    assert text.endswith("correct spec.config; the operator rolls nothing of it out meanwhile")


@pytest.mark.parametrize("rate", ["512", "1k"])
def test_a_copy_rate_with_which_no_bookie_begins_is_not_rolled_out(rate: str) -> None:
    """A running bookie refuses it as well, so that nobody restarts for it, and then nobody could."""
    cluster = make.cluster(repair={"copyRate": rate})

    assert "copyRateBytesPerSecond is" in "; ".join(config.problems(cluster.spec))
    assert "spec.repair.copyRate), at least 1024" in "; ".join(config.problems(cluster.spec))
    assert config.problems(make.cluster(repair={"copyRate": "1Ki"}).spec) == ()


@pytest.mark.parametrize(
    ("security", "key"),
    [("tls", "tlsKeyStore"), ("tls", "tlsRequired"), ("authentication", "saslJaasFile")],
)
def test_what_spec_security_sets_cannot_stand_in_config_as_well(security: str, key: str) -> None:
    text = {"tlsKeyStore": "/k", "tlsRequired": "false", "saslJaasFile": "/j"}[key]
    switched_on = {"security": {security: {"mode": "Permissive", "secretName": "s"}}}

    assert problems({key: text}) == ""
    assert f"{key} is set by spec.security.{security}, which is Permissive" in problems({key: text}, **switched_on)


def test_auto_recovery_inside_the_bookies_is_refused_since_it_has_a_field_of_its_own() -> None:
    for want in ({}, {"autorecovery": {"enabled": True}}):
        assert "autoRecoveryDaemonEnabled has a field of its own" in problems(
            {"autoRecoveryDaemonEnabled": "true"}, **want
        )


def test_a_java_fleets_settings_without_meaning_here_are_taken() -> None:
    assert problems({"journalMaxGroupWaitMSec": "2", "flushInterval": "2000", "logLevel": "debug"}) == ""


def test_nothing_is_rolled_out_from_a_wrong_config_and_the_fleet_stays_protected() -> None:
    observation = make.observation(spec_changes={"config": {"flushInterval": "soon"}})

    plan = fleet.decide(observation)

    kinds = [action.manifest["kind"] for action in plan.actions if hasattr(action, "manifest")]
    assert [obstacle.reason for obstacle in plan.obstacles] == ["SpecInvalid"]
    assert kinds == ["ServiceAccount", "Service", "PodDisruptionBudget"]


def test_every_setting_that_the_operator_writes_is_refused_in_config_by_all_of_its_names() -> None:
    storage = make.spec()["storage"]
    storage["ledgers"]["volumes"][0]["allowSharedFilesystem"] = True
    everything = files.properties(make.cluster(storage=storage, repair={"copyRate": "10M"}).spec)

    owned = {name for key in everything for name in (BY_NAME[key].key, *BY_NAME[key].aliases)}

    assert owned <= set(reserved.DENIED_CONFIG)


@pytest.mark.parametrize("ledgers", [1, 2, 4])
@pytest.mark.parametrize("indexes", [0, 1, 2, 4])
@pytest.mark.parametrize("journals", [1, 3])
def test_the_volumes_that_are_taken_are_those_that_a_bookie_starts_with(
    tmp_path: Path, ledgers: int, indexes: int, journals: int
) -> None:
    counts = {"journal": journals, "ledgers": ledgers, "index": indexes}
    storage = make.spec()["storage"] | {
        role: {"volumes": [{"name": f"{role}-{number}", "size": "1Gi"} for number in range(count)]}
        for role, count in counts.items()
    }

    try:
        cluster = make.cluster(storage=storage)
    except BadInput:
        assert indexes not in (0, ledgers)
        return

    assert starts(files.config_map(cluster)["data"]["bookie.properties"], tmp_path)


def starts(text: str, folder: Path) -> bool:
    """Whether a bookie in a pod would start with this file."""
    environment = {"BOOKIE_BOOKIE_ID": "data.ledgers.zone-a.0", "BOOKIE_ADVERTISED_ADDRESS": "ledgers-zone-a-0"}
    try:
        settings_support.build(settings_support.load(text, folder=folder, environment=environment))
    except BadInput:
        return False
    return True


# Whether the files that these name are there, and hold what they must, only the bookie can see.
FILES = ("tls", "sasl", "bookieAuth", "clientAuth", "authorized", "lossSigningKeyFile")
FREE = [one for one in SETTINGS if one.key not in reserved.DENIED_CONFIG and not one.key.startswith(FILES)]
WORDS = ["true", "false", "0", "1", "-1", "0.5", "0.95", "1.0", "none", "any", "INFO", "nan", "inf", "x", ""]
TEXTS = st.one_of(
    st.sampled_from(WORDS),
    st.integers(-(1 << 33), 1 << 33).map(str),
    st.floats(-1, 2).map(str),
    st.text(string.printable, max_size=6),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example({"minorCompactionInterval": "90000"})
@example({"compactionRateByBytes": "0", "isThrottleByBytes": "true"})
@example({"logSizeLimit": "4294967296"})
@example({"readOnlyModeEnabled": "false"})
@example({"phaseOne": "true"})
@given(st.dictionaries(st.sampled_from([one.key for one in FREE]), TEXTS, min_size=1, max_size=3))
def test_the_operator_refuses_exactly_what_the_bookie_would_not_start_with(
    tmp_path: Path, found: dict[str, str]
) -> None:
    cluster = make.cluster(config=found)
    text = files.config_map(cluster)["data"]["bookie.properties"]

    refused = bool(config.problems(cluster.spec))

    torn = any(value != value.strip() or not value.isprintable() or value.endswith("\\") for value in found.values())
    assert refused == (not starts(text, tmp_path)) or (refused and torn)
