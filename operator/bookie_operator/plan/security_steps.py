"""Modes of security that bookies of one fleet may have beside each other. Pure.

A bookie whose mode is Required serves nobody who is still Disabled, another bookie neither. So while a pod is noted to
be Disabled, a spec that asks for Required is taken for Permissive: that edit may come before the roll-out of Permissive
has ended, and waits for it (spec/operator.md#Q18).
"""

import json
from collections.abc import Iterable
from dataclasses import replace

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.plan.observation import Observation
from bookie_operator.resources import inputs

_PARTS = ("tls", "authentication")


def between(seen: Observation) -> Observation:
    """Return `seen` with the spec as it may be made of now."""
    spec = seen.cluster.spec
    for part in _PARTS:
        if waits_for(spec, part, seen.bookies):
            changed = getattr(spec.security, part).model_copy(update={"mode": "Permissive"})
            spec = spec.model_copy(update={"security": spec.security.model_copy(update={part: changed})})
    return seen if spec is seen.cluster.spec else replace(seen, cluster=replace(seen.cluster, spec=spec))


def waits_for(spec: BookieClusterSpec, part: str, bookies: Iterable[BookieCase]) -> tuple[str, ...]:
    """Return the bookies whose pods are Disabled by their own notes while `spec` asks for Required; a pod without
    notes, of an operator of before, is none of them."""
    if getattr(spec.security, part).mode != "Required":
        return ()
    return tuple(one.name for one in bookies if _is_disabled(one, part))


def _is_disabled(one: BookieCase, part: str) -> bool:
    """Return True when nothing was said of the mode, which is the default, when the bookie's pod was made."""
    if one.pod is None or not inputs.is_noted(one.pod.inputs):
        return False
    try:
        marks = json.loads(one.pod.said)
    except ValueError:
        return False
    return isinstance(marks, dict) and f"spec.security.{part}.mode" not in marks
