"""spec.podTemplate: what a user wants of every bookie's pod beyond the fields of the spec.

`spec` is a part of a PodSpec as Kubernetes has it. The schema declares of it what a rule has to see, and preserves the
rest: a newer Kubernetes has fields that this release does not know. What may stand in it: resources/pod_template.py.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from bookie_operator.model import cel, reserved, rules
from bookie_operator.model.base import Model

Text = Annotated[str, Field(max_length=4096)]

_OBJECT: JsonDict = {"type": "object", "maxProperties": 64, "x-kubernetes-preserve-unknown-fields": True}


def _by_name(what: str) -> JsonDict:
    """Return the schema of a list of named objects of which only the name is declared."""
    return {
        "type": "array",
        "maxItems": 32,
        "description": what,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": _OBJECT | {"properties": {"name": {"type": "string", "maxLength": 63}}, "required": ["name"]},
    }


_POD_SPEC: JsonDict = {
    **_OBJECT,
    **cel.schema(rules.POD_SPEC),
    "properties": {
        "containers": _by_name(
            "Sidecars; and what is added to the bookie's own container (env, volumeMounts), under the name bookie."
        ),
        "initContainers": _by_name("Containers that run before the bookie, or beside it (restartPolicy: Always)."),
        "volumes": _by_name("More volumes. Names that begin with bookie- are the operator's."),
        **{
            name: {"type": kind} | ({"maxLength": 253} if kind == "string" else {})
            for name, kind in reserved.POD_SPEC_OWN.items()
        },
    },
}


class PodMetadata(Model):
    model_config = ConfigDict(json_schema_extra=cel.schema(rules.POD_METADATA))

    labels: dict[str, Annotated[str, Field(max_length=63)]] = Field(default={}, max_length=32)
    annotations: dict[str, Text] = Field(default={}, max_length=32)


class PodTemplate(Model):
    metadata: PodMetadata = PodMetadata()
    spec: dict[str, Any] = Field(
        default={},
        json_schema_extra=_POD_SPEC,
        description="A part of a PodSpec, laid over the operator's: containers, env, volumes and mounts are joined by"
        " name or path. What the operator sets cannot be changed by it, and a field that Kubernetes does not know is"
        " refused; the message says which.",
    )
