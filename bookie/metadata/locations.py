"""Finds the location of a bookie: from settings, from the record that Pulsar's clusters keep, or from itself.

Pulsar's record is JSON, `{"<group>": {"<bookie id>": {"rack": "/rack1", "hostname": "…"}}}`; a rack that is empty or
"/" is unknown. Rule: spec/metadata.md#M36.
"""

import json
from collections.abc import Mapping

from bookie.base import errors
from bookie.base.ids import BookieId


def load_rack_mapping(data: bytes) -> dict[str, str]:
    """Return the locations in Pulsar's record, by bookie id and by host name. Raises BadInput.

    A leading "/" is added where it is missing; bookies without a rack are left out.
    """
    try:
        groups = json.loads(data or b"{}")
        found: dict[str, str] = {}
        for group in groups.values():
            for bookie_id, info in group.items():
                rack = str(info.get("rack") or "").strip("/")
                if rack:
                    found[str(bookie_id)] = f"/{rack}"
                    if info.get("hostname"):
                        found[str(info["hostname"])] = f"/{rack}"
    except (ValueError, AttributeError, RecursionError) as error:
        raise errors.BadInput(f"the rack mapping is not the JSON that Pulsar writes: {error}") from error
    return found


def location_of(bookie_id: BookieId, host: str, own: str, mapping: Mapping[str, str]) -> str:
    """Return the location of a bookie: from `mapping` by its id or its host, else `own`, which it registered itself."""
    return mapping.get(bookie_id) or mapping.get(host) or own
