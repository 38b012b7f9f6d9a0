"""The answers of the admin service as plain calls; the gRPC shell is `runtime.admin`. Also keeps the node's state."""

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import bookie
from bookie.base import errors
from bookie.ports.admin import Grant, Health, RepairStatus, State, StorageReport

if TYPE_CHECKING:
    from bookie.server.bookie import Bookie

log = logging.getLogger(__name__)


class NodeAdmin:
    """`ports.admin.Admin` for one bookie. Answers from the first second of its life."""

    def __init__(self, node: "Bookie") -> None:
        self._node = node
        self._phase = State.STARTING

    def enter(self, state: State) -> None:
        """The node's life moved on."""
        if state is not self._phase:
            log.info("state bookie_id=%s state=%s", self._node.options.bookie_id, state.value)
            self._phase = state

    @property
    def state(self) -> State:
        return self._phase

    def is_healthy(self, question: Health) -> bool:
        """A waiting or held bookie is alive and must not be restarted; it is only not ready."""
        match question:
            case Health.PROCESS:
                return True
            case Health.STORAGE:
                return self.state.serves
            case Health.SERVING:
                return self.state.serves and self._node.ready.is_set()

    async def storage_report(self, *, fresh: bool = False) -> StorageReport:
        node = self._node
        return StorageReport(
            bookie_id=node.options.bookie_id,
            pod_uid=node.world.host.pod_uid,
            state=self.state,
            verdict=None,
            reason="",
            data_port_open=node.port != 0,
            version=bookie.__version__,
        )

    async def grant(self, grant: Grant) -> None:
        raise errors.GrantRefused("not_waiting", "this bookie does not wait for a grant")

    async def repair_status(self, interval_ms: int) -> AsyncIterator[RepairStatus]:
        yield RepairStatus(state=self.state, done=True)

    async def set_read_only(self, read_only: bool) -> State:
        store = self._node.store
        if store is None:
            raise errors.StorageFailed(f"the storage of this bookie is not open; it is {self.state.value}")
        store.set_read_only(read_only)
        return self.state

    async def prepare_shutdown(self) -> str:
        store = self._node.store
        if store is None:
            return f"nothing to flush: this bookie is {self.state.value}"
        store.set_read_only(True)
        await store.flush()
        return "flushed; adds are refused from now on"
