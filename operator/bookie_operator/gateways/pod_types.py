"""Compares a pod template with the fields that Kubernetes has, by the types of its client library: a misspelt field or
a wrong type is told before any StatefulSet is applied, with its path.

A field of a Kubernetes newer than the library is refused too: the operator does not apply what it cannot read.
"""

from collections.abc import Iterator
from typing import Any

from kubernetes.aio.client import models

from bookie_operator.model.pod_template import PodTemplate

_FIELD = "spec.podTemplate.spec"
_SCALARS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
_WORDS = {"str": "text (in quotes, if it looks like a number)", "int": "a whole number", "bool": "true or false"}


def problems(template: PodTemplate) -> tuple[str, ...]:
    """Return one sentence for each unknown field and each value of a wrong type in the pod's spec."""
    return tuple(_of(template.spec, "V1PodSpec", _FIELD))


def _of(value: Any, kind: str, path: str) -> Iterator[str]:
    outer, _, inner = kind.rstrip("]").partition("[")
    if outer == "List":
        if not isinstance(value, list):
            yield f"{path} must be a list"
            return
        for index, one in enumerate(value):
            yield from _of(one, inner, f"{path}[{index}]")
    elif outer == "Dict":
        yield from _of_map(value, inner.removeprefix("str, "), path)
    elif kind in _SCALARS:
        # To Python a bool is an int.
        if not isinstance(value, _SCALARS[kind]) or (kind != "bool" and isinstance(value, bool)):
            yield f"{path} must be {_WORDS.get(kind, 'a number')}, and it is {value!r}"
    elif hasattr(models, kind):
        yield from _of_object(value, getattr(models, kind), path)


def _of_map(value: Any, kind: str, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} must be a map of names and values"
        return
    for key, one in value.items():
        yield from _of(one, kind, f"{path}.{key}")


def _of_object(value: Any, model: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} must be a map of fields"
        return
    types = {model.attribute_map[name]: kind for name, kind in model.openapi_types.items()}
    for key, one in value.items():
        if key not in types:
            yield f"{path}.{key} is no field that this release knows: look at its spelling, or remove it"
        else:
            yield from _of(one, types[key], f"{path}.{key}")
