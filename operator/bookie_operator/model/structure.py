"""What the API server refuses, or drops, before any rule is asked: fields that the schema does not have, and things
named twice in a list. Pure; for manifests that no API server has seen. Never decides about a live resource: a newer CRD
may know more fields than we do.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from bookie_operator.model import crd, names

_PROBLEMS_MAX = 5
_SCHEMAS = {names.KIND: crd.definition, names.OPERATION_KIND: crd.operations}


def problems(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each of the first problems of a resource of ours; none for another kind of object."""
    kind = manifest.get("kind")
    if kind not in _SCHEMAS:
        return ()
    told = manifest.get("apiVersion")
    if told != names.API_VERSION:
        return (f"apiVersion of {kind} is {told!r}, and this release knows {names.API_VERSION} alone: write that",)
    version = _SCHEMAS[kind]()["spec"]["versions"][0]
    found = _walk({**manifest, "status": {}}, version["schema"]["openAPIV3Schema"], "", kind)
    return tuple(one for _, one in zip(range(_PROBLEMS_MAX), found, strict=False))


def _walk(value: Any, schema: Mapping[str, Any], where: str, kind: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        is_open = not known or schema.get("x-kubernetes-preserve-unknown-fields", False)
        for name, each in value.items():
            below = f"{where}.{name}" if where else str(name)
            if name in known:
                yield from _walk(each, known[name], below, kind)
            elif isinstance(others, Mapping):
                yield from _walk(each, others, below, kind)
            elif not is_open:
                like = difflib.get_close_matches(str(name), list(known), n=1)
                also = f": is {like[0]} meant?" if like else ""
                at = ".".join([kind.lower(), *(part for part in where.split(".") if part and not part.isdigit())])
                yield f"{below} is no field of a {kind}{also} (`kubectl explain {at}` lists those that there are)"
    elif isinstance(value, list) and "items" in schema:
        for index, each in enumerate(value):
            yield from _walk(each, schema["items"], f"{where}.{index}", kind)
        yield from _twice(value, schema.get("x-kubernetes-list-map-keys", ()), where)


def _twice(values: list[Any], keys: list[str], where: str) -> Iterator[str]:
    seen: list[tuple[Any, ...]] = []
    for each in values if keys else ():
        named = tuple(each.get(key) for key in keys) if isinstance(each, Mapping) else ()
        if all(named) and named in seen:
            yield f"{where} names {', '.join(map(str, named))} twice: leave one out, or give it another {keys[0]}"
        seen.append(named)
