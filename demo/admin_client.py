"""The storage report of one local bookie, asked over its admin port."""

from __future__ import annotations

import grpc

from bookie.rpc import admin_pb2, admin_pb2_grpc
from stage import Observation

ANSWER_TIMEOUT_S = 10.0  # a fresh report looks at every mount twice


class AdminClient:
    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=[("grpc.max_reconnect_backoff_ms", 500)])
        self._stub = admin_pb2_grpc.AdminStub(self._channel)
        self.error = ""

    def report(self, *, fresh: bool = False) -> admin_pb2.StorageReport | None:
        """Return the storage report; None when nobody answers, and `error` says why."""
        request = admin_pb2.GetStorageReportRequest(fresh=fresh)
        try:
            # A fresh report is wanted for a decision: then the connection may take its time to come back.
            return self._stub.GetStorageReport(request, timeout=ANSWER_TIMEOUT_S, wait_for_ready=fresh)
        except grpc.RpcError as error:
            self.error = error.details() if isinstance(error, grpc.Call) else str(error)
            return None

    def close(self) -> None:
        self._channel.close()


def observation(report: admin_pb2.StorageReport) -> Observation:
    """Return what a report says, as one look."""
    return Observation(
        state=admin_pb2.State.Name(report.state),
        verdict=admin_pb2.Verdict.Name(report.verdict) if report.verdict else "",
        reason=report.reason,
        data_port_open=report.data_port_open,
        incarnation=report.incarnation,
        cookie_version=report.cookie_version,
    )
