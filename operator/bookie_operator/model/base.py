"""The base of every model: frozen, camelCase outside, unknown fields ignored (a newer CRD, an older operator)."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

_TOLD_MAX = 5
_SHOWN_MAX = 60  # of a value that somebody wrote


def json_name(field: str) -> str:
    """Return the Kubernetes spelling of a Python field: pod_uid -> podUID, pv_name -> pvName."""
    return re.sub(r"Uid$", "UID", to_camel(field))


# What pydantic says in words of its own, by its type of problem.
_SHAPES = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text (in quotes)",
    "tuple_type": "a list",
    "list_type": "a list",
}
_FIELDS = ("model_type", "model_attributes_type", "dict_type", "mapping_type")


def sentences(error: ValidationError, *, kind: str = "bookiecluster") -> list[str]:
    """Return the first problems of a spec: each field, what is wrong with it, and what to write. `kind`: of the
    resource, as `kubectl explain` takes it."""
    found = error.errors()
    # A list whose items are wrong is told as too short as well: pydantic counts those that are right.
    inside = {problem["loc"][:length] for problem in found for length in range(len(problem["loc"]))}
    return [_sentence(one, kind) for one in found if one["type"] != "too_short" or one["loc"] not in inside][:_TOLD_MAX]


def _sentence(problem: Mapping[str, Any], kind: str) -> str:
    where = ".".join(str(part) for part in ("spec", *problem["loc"]))
    if problem["type"] == "missing":
        field = ".".join(part for part in where.split(".") if not part.isdigit())
        return f"{where} is missing: add it (`kubectl explain {kind}.{field}` says what it is, and examples/ shows it)"
    if problem["type"] == "too_short":
        return (
            f"{where}: it must have {problem['ctx']['min_length']} or more, and has {problem['ctx']['actual_length']}"
        )
    said = str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "it must be")
    if problem["type"] in _FIELDS:
        said = "it must have fields of its own"
    elif problem["type"] in _SHAPES:
        said = f"it must be {_SHAPES[problem['type']]}"
    if isinstance(problem["input"], str | int | float) and problem["type"] != "value_error":
        said += f", and it is {repr(problem['input'])[:_SHOWN_MAX]}"
    return f"{where}: {said}"


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=json_name, populate_by_name=True)

    def dump(self) -> dict[str, object]:
        """Return the model as JSON values; a field that is None is absent, not null."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
