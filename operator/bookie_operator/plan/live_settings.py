"""What a running bookie takes without a restart: which fields of the spec that is, who lacks one, what to send it.

Pure. The bookie says what it can take and what is in force (`StorageReport.live_settings`), by the text that was said.
So a container that began again with its pod's older settings is told again (spec/operator.md#Q17). Whatever a bookie
does not list is rolled out.
"""

from collections.abc import Iterable, Mapping

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.plan import doors
from bookie_operator.plan.actions import ChangeSettings
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed
from bookie_operator.resources import settings

# By the bookie's name of a setting. One that a newer release of bookies takes is rolled out until it stands here.
FIELDS: Mapping[str, str] = {
    "copyRateBytesPerSecond": "spec.repair.copyRate",
    "localScrubRateLimit": "spec.config.localScrubRateLimit",
    "logLevel": "spec.config.logLevel",
    "scrubRateBytesPerSecond": "spec.config.scrubRateBytesPerSecond",
}


def keys(case: BookieCase) -> frozenset[str]:
    """Return the bookie's names of what it takes as it runs; none while it says nothing."""
    return frozenset(_in_force(case))


def takes(case: BookieCase) -> frozenset[str]:
    """Return the fields of the spec of those."""
    return frozenset(FIELDS[key] for key in keys(case))


def lacks(spec: BookieClusterSpec, case: BookieCase) -> Mapping[str, str]:
    """Return, by the bookie's names, what `spec` (of its pool) says and the bookie could take and has otherwise; "" =
    the default."""
    said = settings.properties(spec)
    return {key: said.get(key, "") for key, text in _in_force(case).items() if said.get(key, "") != text}


def orders(seen: Observation, fleet: Iterable[Assessed]) -> tuple[ChangeSettings, ...]:
    """Return what to send, to whom. Only once the pods' templates say the same, so that a restart changes nothing."""
    spec = seen.cluster.spec
    if spec.lifecycle.paused or spec.rollout.paused or not seen.leadership.is_held:
        return ()
    out = []
    for one in fleet:
        pod = one.case.pod
        wanted = lacks(spec.of(one.case.pool), one.case) if one.case.is_ours and one.case.is_desired else {}
        if wanted and pod is not None and not pod.is_terminating and pod.has_certificates and one.evidence.digest:
            door = doors.of(seen.cluster, pod)
            out.append(ChangeSettings(one.case.name, door, tuple(sorted(wanted.items())), seen.leadership.epoch))
    return tuple(out)


def _in_force(case: BookieCase) -> Mapping[str, str]:
    """Return the texts in force of what the bookie can take and this release knows."""
    told = (one.partition("=") for one in (case.report.live_settings if case.report is not None else ()))
    return {key: text for key, _, text in told if key in FIELDS}
