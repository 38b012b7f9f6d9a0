"""Finds the pods that run what the spec says now, by the StatefulSet controller's status."""

from collections.abc import Iterator

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model import names, values
from bookie_operator.model.spec import Zone
from bookie_operator.model.status import Departure
from bookie_operator.model.values import parse_duration
from bookie_operator.plan import live_settings, rebuild
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed
from bookie_operator.resources import inputs, settings
from bookie_operator.resources.common import Manifest

_NOTES = (names.INPUTS, names.SAID)


def sets(seen: Observation) -> dict[str, Manifest]:
    return {name: live for (kind, name), live in seen.children.items() if kind == "StatefulSet"}


def unread(seen: Observation) -> str:
    """Return why it is not known which revision the pods should run; "" when it is."""
    found = sets(seen)
    if not found:
        return "there is no StatefulSet yet"
    for name, live in sorted(found.items()):
        status = live.get("status") or {}
        if "deletionTimestamp" in live["metadata"]:
            return f"StatefulSet {name} is being made anew"
        if not status.get("updateRevision"):
            return f"StatefulSet {name} does not say which revision is the newest"
        observed, generation = status.get("observedGeneration"), live["metadata"].get("generation")
        if observed is not None and generation is not None and int(observed) < int(generation):
            return f"the StatefulSet controller has not seen generation {generation} of {name} yet"
    return ""


def older(seen: Observation, fleet: tuple[Assessed, ...]) -> list[Assessed]:
    """Return the bookies whose pods run an older revision than their StatefulSet's template, zone by zone; and those
    that are to get volumes as soon as the template may have them (plan/adding.py)."""
    found = [
        one for one in fleet if not leaves(one) and (_is_older(seen, one.case) or waits_for_volumes(seen, one.case))
    ]
    return sorted(found, key=lambda one: (one.case.pool, int(one.case.name.rsplit("-", 1)[1])))


def waits_for_volumes(seen: Observation, case: BookieCase) -> bool:
    """Return True when a bookie is to get volumes for which another pod alone is not enough now: it would be made
    without them."""
    withheld = seen.cluster.withheld.get(case.pool, frozenset())
    lacks = case.pod is not None and any(not case.has_volume(name) for name in withheld)
    return lacks and not _is_older(seen, case)


def is_behind(seen: Observation, case: BookieCase) -> bool:
    """Return True when the user changed what the bookie's pod is made of, and it runs an older revision, or its
    StatefulSet is away and cannot tell (plan/departure)."""
    is_away = case.name.rsplit("-", 1)[0] not in sets(seen) and not has_taken_all(seen, case)
    return (is_away or _is_older(seen, case)) and bool(changes_of(seen, case))


def _newest(seen: Observation, case: BookieCase) -> str | None:
    """Return the revision that the bookie's StatefulSet gives to pods made now."""
    live = sets(seen).get(case.name.rsplit("-", 1)[0]) or {}
    return (live.get("status") or {}).get("updateRevision")


def _is_older(seen: Observation, case: BookieCase) -> bool:
    newest = _newest(seen, case)
    if not newest or case.pod is None or case.pod.revision == newest:
        return False
    return not has_taken_all(seen, case) and not is_same_pod(seen, case)


def is_newest(seen: Observation, case: BookieCase) -> bool:
    """Return True when another pod of the bookie would be as this one is."""
    newest = _newest(seen, case)
    return bool(newest) and case.pod is not None and (case.pod.revision == newest or is_same_pod(seen, case))


def is_same_pod(seen: Observation, case: BookieCase, but: frozenset[str] = frozenset()) -> bool:
    """Return True when the bookie's pod is of an older revision than its StatefulSet's, and another pod would be as
    it is: what the user changed reaches none (the Secret of TLS that is switched off, a default said aloud), and stands
    in the operator's notes alone (spec/operator.md#Q14). Settings of the names `but` may be others."""
    newest = _newest(seen, case)
    if case.pod is None or not newest or newest == case.pod.revision or seen.cluster.withheld.get(case.pool):
        return False
    before, after = seen.templates.get(case.pod.revision) or {}, seen.templates.get(newest) or {}
    return bool(before) and bool(after) and _rendered(seen, before, but) == _rendered(seen, after, but)


def image(seen: Observation, case: BookieCase) -> str:
    """Return the image that the bookie's pod was made of; "" when there is no pod, or its revision is gone."""
    return _image(seen, case.pod.revision) if case.pod is not None else ""


def next_image(seen: Observation, case: BookieCase) -> str:
    """Return the image that a pod of the bookie would be made of now; "" when that is not known."""
    return _image(seen, _newest(seen, case) or "")


def _image(seen: Observation, revision: str) -> str:
    container = _container(seen.templates.get(revision) or {})
    return str(container.get("image") or "") if container is not None else ""


def _container(template: Manifest) -> Manifest | None:
    found: list[Manifest] = (template.get("spec") or {}).get("containers") or []
    return next((one for one in found if one.get("name") == names.CONTAINER), None)


def _rendered(seen: Observation, template: Manifest, but: frozenset[str]) -> Manifest:
    """Return what the pods of a template are without the operator's notes, with the lines of their settings, those of
    the names `but` left out, in the place of the ConfigMap's name."""
    metadata, pod = template.get("metadata") or {}, template.get("spec") or {}
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in _NOTES}
    volumes = [_with_lines(seen, one, but) for one in pod.get("volumes") or ()]
    return template | {"metadata": metadata | {"annotations": annotations}, "spec": pod | {"volumes": volumes}}


def _with_lines(seen: Observation, volume: Manifest, but: frozenset[str]) -> Manifest:
    lines = _lines(seen, volume)
    if lines is None:
        return volume
    return volume | {"configMap": [one for one in lines if one.partition("=")[0] not in but]}


def taken_live(seen: Observation, case: BookieCase) -> tuple[str, ...]:
    """Return the fields of the spec that were changed after the bookie's pod was made, and that the bookie has taken as
    it runs (spec/operator.md#Q17)."""
    pod = case.pod
    if pod is None or not inputs.is_noted(pod.inputs):
        return ()
    spec, zone = seen.cluster.spec.of(case.pool), _zone(seen, case)
    if pod.inputs == inputs.digest(spec, zone):
        return ()
    lacking = {live_settings.FIELDS[key] for key in live_settings.lacks(spec, case)}
    taken = live_settings.takes(case) - lacking
    return tuple(path for path in inputs.changed(pod.said, spec, zone) if path in taken)


def has_taken_all(seen: Observation, case: BookieCase) -> bool:
    """Return True when the bookie runs all that the spec says, though its pod is of before: nothing of it is older."""
    return bool(taken_live(seen, case)) and not _changed(seen, case) - set(taken_live(seen, case))


def leaves(one: Assessed) -> bool:
    """Return True when the bookie has begun to leave: its pod is not made anew any more."""
    return one.case.is_leaving and one.leaving is not None and one.leaving.state is not Departure.LEAVING


def changes(seen: Observation, one: Assessed) -> tuple[str, ...]:
    """Return the fields of the spec that the user changed since this older pod was made. None: only a newer operator
    renders the pod otherwise or brings another default image; that waits until the pod ends for another reason."""
    return changes_of(seen, one.case)


def changes_of(seen: Observation, case: BookieCase) -> tuple[str, ...]:
    """Return the same of a bookie of which nothing is concluded yet."""
    pod = case.pod
    if pod is None:
        return ()
    if not inputs.is_noted(pod.inputs):
        return tuple(_lacking(seen, case.pool, seen.templates.get(pod.revision) or {}))
    return tuple(sorted(_changed(seen, case) - live_settings.takes(case)))


def runs_what_is_said(seen: Observation, case: BookieCase) -> bool:
    """Return True when the bookie's pod is as the user says now, with the claims that it had when that was said."""
    if case.pod is None or not inputs.is_noted(case.pod.inputs):
        return False
    if case.pod.inputs == inputs.digest(seen.cluster.spec.of(case.pool), _zone(seen, case)):
        return True
    return not _changed(seen, case) and not _of_other_claims(seen, case)


def _changed(seen: Observation, case: BookieCase) -> set[str]:
    """Return the fields of the spec that are otherwise than when this pod, which has notes, was made."""
    assert case.pod is not None
    spec, zone = seen.cluster.spec.of(case.pool), _zone(seen, case)
    if case.pod.inputs == inputs.digest(spec, zone) or is_same_pod(seen, case):
        return set()
    found = set(inputs.changed(case.pod.said, spec, zone)) - set(_of_other_claims(seen, case))
    taken = found & live_settings.takes(case)
    # Whatever else was changed may reach no pod, beside what the bookie takes as it runs.
    return taken if taken and is_same_pod(seen, case, live_settings.keys(case)) else found


def _zone(seen: Observation, case: BookieCase) -> Zone | None:
    return next((pool.zone for pool in seen.pools if pool.name == case.pool), None)


def _of_other_claims(seen: Observation, case: BookieCase) -> tuple[str, ...]:
    """Return the volumes of the spec that are another class or access mode than the bookie's claims: a restart changes
    nothing of that. Its pod is made anew when it is rebuilt (spec/operator.md#X7)."""
    spec = seen.cluster.spec.of(case.pool)
    differ = [volume.role for volume in case.volumes if rebuild.differs(spec, volume)]
    return tuple(f"spec.storage.{role}.volumes" for role in dict.fromkeys(differ))


def _lacking(seen: Observation, pool: str, template: Manifest) -> Iterator[str]:
    """Return what the spec says and the template of a pod, made by an operator that noted nothing this release can
    compare, has otherwise. What the user has taken out of the spec since then cannot be told from that operator's own
    words, and waits until the pod ends."""
    spec, pod = seen.cluster.spec.of(pool), template.get("spec") or {}
    container = _container(template)
    if container is None:
        return  # its revision is gone: nothing is known of it
    said = inputs.said(spec, None)
    if "spec.image" in said and container.get("image") != spec.image:
        yield "spec.image"
    if "spec.imagePullPolicy" in said and container.get("imagePullPolicy") != spec.image_pull_policy:
        yield "spec.imagePullPolicy"
    for path, kind, wanted in (
        ("spec.resources.requests", "requests", spec.resources.requests),
        ("spec.resources.limits", "limits", spec.resources.limits),
    ):
        had = (container.get("resources") or {}).get(kind) or {}
        if path in said and not all(values.is_same_quantity(str(had.get(key, "")), one) for key, one in wanted.items()):
            yield path
    grace_s = parse_duration(spec.lifecycle.termination_grace) // 1_000
    if "spec.lifecycle.terminationGrace" in said and pod.get("terminationGracePeriodSeconds") != grace_s:
        yield "spec.lifecycle.terminationGrace"
    lines = _settings(seen, pod)
    for key, value in settings.properties(spec).items():
        if lines is not None and f"spec.config.{key}" in said and f"{key}={value}" not in lines:
            yield f"spec.config.{key}"


def _settings(seen: Observation, pod: Manifest) -> list[str] | None:
    """Return the lines of settings that a pod of this spec reads; None when nobody has them any more."""
    return next((lines for one in pod.get("volumes") or () if (lines := _lines(seen, one)) is not None), None)


def _lines(seen: Observation, volume: Manifest) -> list[str] | None:
    """Return the lines of settings of a pod's volume; None when it has none, or nobody has them any more."""
    name = str((volume.get("configMap") or {}).get("name"))
    data = (seen.children.get(("ConfigMap", name)) or {}).get("data") or {}
    return str(data[names.SETTINGS_FILE]).splitlines() if names.SETTINGS_FILE in data else None
