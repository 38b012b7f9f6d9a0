"""A node for tests of who gets through the admin port, and the names of the port's calls."""

from collections.abc import AsyncIterator
from typing import Any

from bookie.base.ids import EntryId, LedgerId
from bookie.ports import admin as port
from bookie.rpc import admin_pb2

CALLS = [method.name for method in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods]


class WillingNode:
    """Says yes to everything, and remembers the grants."""

    def __init__(self) -> None:
        self.grants: list[port.Grant] = []

    def __getattr__(self, name: str) -> Any:
        async def answer(*arguments: Any, **named: Any) -> Any:
            return port.State.SERVING

        return answer

    def is_healthy(self, question: port.Health) -> bool:
        return True

    async def storage_report(self, *, fresh: bool = False) -> port.StorageReport:
        return port.StorageReport("b", "", port.State.SERVING, None, "")  # type: ignore[arg-type]

    async def drain(self, *arguments: Any, **named: Any) -> port.DrainStatus:
        return port.DrainStatus()

    async def repair_status(self, interval_ms: int) -> AsyncIterator[port.RepairStatus]:
        yield port.RepairStatus(port.State.SERVING)

    def scrub_report(self) -> port.ScrubReport:
        return port.ScrubReport(False, 0, 0, 0, LedgerId(-1), EntryId(-1), 0)

    async def fill_holes(self, action: port.FillAction) -> port.FillStatus:
        return port.FillStatus(reason=action.value)

    async def grant(self, grant: port.Grant) -> None:
        self.grants.append(grant)
