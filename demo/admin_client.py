"""The storage report of one local bookie, asked over its admin port."""

from __future__ import annotations

from bookie.ports.admin import StorageReport
from bookie.rpc import calls
from bookie.rpc.client import AdminClient
from stage import Observation

ANSWER_TIMEOUT_S = 10.0  # a fresh report looks at every mount twice


def report(address: str, *, fresh: bool = False) -> StorageReport:
    """Ask for the storage report. Raises BookieError, which says why, when nobody answers."""
    with AdminClient(address, deadline_s=ANSWER_TIMEOUT_S) as bookie:
        return bookie.ask(calls.storage_report(fresh=fresh))


def observation(report: StorageReport) -> Observation:
    """Return what a report says, as one look."""
    return Observation(
        state=report.state.value,
        verdict=report.verdict.value if report.verdict else "",
        reason=report.reason,
        data_port_open=report.data_port_open,
        incarnation=report.incarnation,
        cookie_version=report.cookie_version,
    )
