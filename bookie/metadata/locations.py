"""Where bookies stand, from sources other than themselves: settings, and the record that Pulsar's clusters keep.

Rule: spec/metadata.md#M36 (of Pulsar: JSON
`{"<group>": {"<bookie id>": {"rack": "/rack1", "hostname": "…"}}}`, empty or "/" meaning unknown).
"""

import json
from collections.abc import Mapping

from bookie.base import errors
from bookie.base.ids import BookieId


def load_rack_mapping(data: bytes) -> dict[str, str]:
    """Locations by bookie id and by host name, as Pulsar's record says them. Raises BadInput.

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
    """The location of a bookie: what a mapping says of its id or of its host, else what it says of itself."""
    return mapping.get(bookie_id) or mapping.get(host) or own
