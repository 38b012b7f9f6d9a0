"""The admin service of one bookie, asked by whoever watches: reports, and every step of a repair in its order.

A thread follows the stream of repair states, because phases of a small fleet are over in milliseconds.
"""

from __future__ import annotations

import threading
from collections import deque

import grpc

from bookie.rpc import admin_pb2, admin_pb2_grpc
from stage import Observation

ANSWER_TIMEOUT_S = 3.0
STREAM_INTERVAL_MS = 250


class AdminClient:
    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=[("grpc.initial_reconnect_backoff_ms", 100)])
        self._stub = admin_pb2_grpc.AdminStub(self._channel)
        self._steps: deque[admin_pb2.RepairStatus] = deque()
        self._step: admin_pb2.RepairStatus | None = None
        self._report: admin_pb2.StorageReport | None = None
        self._closing = threading.Event()
        self._follower = threading.Thread(target=self._follow, name=f"admin {address}", daemon=True)

    def follow(self) -> None:
        """Begin to remember every step of the repair."""
        self._follower.start()

    def report(self, *, fresh: bool = False) -> admin_pb2.StorageReport | None:
        """Return the storage report; None when nobody answers."""
        request = admin_pb2.GetStorageReportRequest(fresh=fresh)
        try:
            return self._stub.GetStorageReport(request, timeout=ANSWER_TIMEOUT_S)
        except grpc.RpcError:
            return None

    def observe(self) -> Observation:
        """Return the oldest step nobody has looked at yet, beside what the report says now."""
        if self._steps:
            self._step = self._steps.popleft()
        if self._report is None or not self._steps:  # a backlog of steps is told first; the report would be ahead of it
            self._report = self.report() or self._report
        return Observation() if self._report is None else observation(self._report, self._step)

    def _follow(self) -> None:
        request = admin_pb2.GetRepairStatusRequest(interval_ms=STREAM_INTERVAL_MS)
        while not self._closing.is_set():
            try:
                for step in self._stub.GetRepairStatus(request):
                    self._steps.append(step)
                    if step.done:
                        return
            except (grpc.RpcError, ValueError):  # not there yet, or the channel was closed
                self._closing.wait(0.1)

    def close(self) -> None:
        self._closing.set()
        self._channel.close()
        if self._follower.is_alive():
            self._follower.join(timeout=ANSWER_TIMEOUT_S)


def observation(report: admin_pb2.StorageReport, step: admin_pb2.RepairStatus | None) -> Observation:
    """Return report and step as one look; the step, being of one moment, wins where both know."""
    verdict = admin_pb2.Verdict.Name(report.verdict) if report.verdict else ""
    known = Observation(
        state=admin_pb2.State.Name(step.state if step is not None else report.state),
        verdict=verdict,
        reason=report.reason,
        data_port_open=report.data_port_open,
        incarnation=step.incarnation if step is not None else report.incarnation,
        cookie_version=report.cookie_version,
    )
    if step is None:
        return known
    return Observation(
        state=known.state,
        verdict=known.verdict,
        reason=known.reason,
        data_port_open=known.data_port_open,
        incarnation=known.incarnation,
        cookie_version=known.cookie_version,
        phase=step.phase,
        phase_one_ms=step.phase_one_ms,
        ledgers_fenced=step.ledgers_fenced,
        ledgers_limbo=step.ledgers_limbo,
        ledgers_pending=step.ledgers_pending,
        ledgers_done=step.ledgers_done,
        entries_copied=step.entries_copied,
        bytes_copied=step.bytes_copied,
        bytes_per_second=step.bytes_per_second,
        done=step.done,
    )
