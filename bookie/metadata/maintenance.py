"""Packs and unpacks a maintenance lease: for so long nobody takes the bookie's absence for a loss.

JSON below `underreplication/maintenance`. Java's auditor does not know it (spec/metadata.md#M50).
"""

import json
from dataclasses import asdict, dataclass

from bookie.base import errors

# Longer than a day is no maintenance: a bookie that is away is one copy fewer of everything it has.
LEASE_S_MAX = 86_400
_TEXT_CHARS_MAX = 400
# Who took it, where that was the bookie itself as it was told that it is to be stopped.
BOOKIE = "bookie"


@dataclass(frozen=True, slots=True)
class MaintenanceLease:
    """`seconds`: from when it was written. Raises BadInput for what no lease can be."""

    seconds: int
    by: str
    reason: str = ""

    def __post_init__(self) -> None:
        if type(self.seconds) is not int or not 0 < self.seconds <= LEASE_S_MAX:
            raise errors.BadInput(f"a maintenance lease lasts from 1 s to {LEASE_S_MAX} s, not {self.seconds} s")
        if not self.by or max(len(self.by), len(self.reason)) > _TEXT_CHARS_MAX:
            raise errors.BadInput(f"a maintenance lease says who took it and why, in {_TEXT_CHARS_MAX} characters each")


@dataclass(frozen=True, slots=True)
class StoredLease:
    """A lease as it stands. `written_ms`: by the store's clock; with `version` it tells this lease from a renewed
    one."""

    lease: MaintenanceLease
    written_ms: int
    version: int

    @property
    def until_ms(self) -> int:
        """When it ends, by the store's clock."""
        return self.written_ms + self.lease.seconds * 1000


def dump_lease(lease: MaintenanceLease) -> bytes:
    return json.dumps(asdict(lease), sort_keys=True).encode()


def load_lease(data: bytes) -> MaintenanceLease:
    """Return the lease in `data`. Raises BadInput."""
    try:
        fields = json.loads(data)
        return MaintenanceLease(fields["seconds"], str(fields["by"]), str(fields.get("reason", "")))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise errors.BadInput(f"the maintenance lease cannot be read ({error}): {data[:80]!r}") from error
