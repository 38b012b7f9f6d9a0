"""The base of every model: frozen, camelCase outside, unknown fields ignored (a newer CRD, an older operator)."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


def json_name(field: str) -> str:
    """Return the Kubernetes spelling of a Python field: pod_uid -> podUID, pv_name -> pvName."""
    return re.sub(r"Uid$", "UID", to_camel(field))


def sentence(problem: Mapping[str, Any]) -> str:
    """Return one of a ValidationError's errors(): the field of the spec, and what is wrong with it."""
    where = ".".join(str(part) for part in ("spec", *problem["loc"]))
    return f"{where}: {str(problem['msg']).removeprefix('Value error, ')}"


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=json_name, populate_by_name=True)

    def dump(self) -> dict[str, object]:
        """Return the model as JSON values; a field that is None is absent, not null."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
