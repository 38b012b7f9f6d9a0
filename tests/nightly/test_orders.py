"""What a person orders by name, or forbids for a time: a bookie fenced off, a cookie made again, a window."""

from __future__ import annotations

import datetime as dt

import pytest

from fleet_support import Fleet
from scenario_support import is_complete

pytestmark = pytest.mark.cluster

POD = "ledgers-zone-b-0"
OTHER = "ledgers-zone-c-0"
# With another tool: ours refuses while the bookie lives.
DELETES = """
import sys
from kazoo.client import KazooClient
client = KazooClient(hosts="zookeeper:2181", timeout=20.0)
client.start(30)
client.delete(f"/ledgers/cookies/{sys.argv[1]}")
client.stop()
"""


def is_held(fleet: Fleet, reason: str, *, but: str) -> None:
    """Wait until a pod other than `but` has the bookie, and the bookie is held for `reason`."""

    def look() -> bool:
        entry = fleet.bookie(POD)
        return (entry.get("state"), entry.get("reason")) == ("Held", reason) and entry.get("podUID") != but

    fleet.sees(f"{POD} to be held for {reason}", look, detail=lambda: str(fleet.bookie(POD)))


def test_a_bookie_that_is_fenced_off_stays_out_whatever_starts_it(fleet: Fleet) -> None:
    before, lives = fleet.uids(), fleet.incarnations()
    fence = fleet.orders(type="Fence", target={"bookie": POD}, reason="its disk clicks")
    is_complete(fleet, fence)
    is_held(fleet, "SetAside", but=before[POD])
    assert fleet.bookie(POD)["fenced"]
    was = fleet.uids()[POD]
    fleet.types(f"kubectl delete pod {POD}")
    is_held(fleet, "SetAside", but=was)
    fleet.is_written_to()

    fleet.edits(config={"flushInterval": "7400"})
    fleet.sees(
        "the roll-out to wait for it", lambda: POD in str((fleet.status().get("rollout") or {}).get("waitingFor"))
    )
    assert {name: uid for name, uid in fleet.uids().items() if name != POD}.items() <= before.items()
    fleet.edits(config={"flushInterval": None})

    is_complete(fleet, fleet.orders(type="Unfence", target={"bookie": POD}, reason="its disk is another one"))
    fleet.settled()
    assert fleet.incarnations() == lives
    assert not fleet.bookie(POD).get("fenced")


def test_a_cookie_that_somebody_deleted_is_made_again_by_order(fleet: Fleet) -> None:
    before, lives, grants = fleet.uids(), fleet.incarnations(), len(fleet.status().get("history", ()))
    identity = fleet.bookie(POD)["bookieId"]
    print(fleet.types(f"kubectl exec -i {OTHER} -- python - {identity} <<'END'\n{DELETES}\nEND"))
    fleet.types(f"kubectl delete pod {POD}")
    is_held(fleet, "CookieMissingInMetadata", but=before[POD])
    evidence = fleet.bookie(POD)["evidence"]
    order = fleet.orders(
        type="RestoreCookie",
        target={"bookie": POD},
        evidence=evidence,
        reason="its node was deleted by hand on Tuesday",
    )
    is_complete(fleet, order)
    fleet.settled()
    assert fleet.incarnations() == lives
    assert len(fleet.status().get("history", ())) == grants, "nobody was granted anything"


def test_a_maintenance_window_holds_a_roll_out_and_no_repair(fleet: Fleet) -> None:
    # Never, while this test runs: an hour of a day at least two weeks away.
    away = dt.datetime.now(dt.UTC) + dt.timedelta(days=15)
    window = {"schedule": f"0 3 {away.day} {away.month} *", "duration": "1h"}
    before = fleet.uids()
    fleet.edits(rollout={"windows": [window]}, config={"flushInterval": "7500"})
    fleet.says("Reconciling", "WaitingForWindow")
    assert f"-{away.month:02d}-{away.day:02d}T03:00" in fleet.status()["rollout"]["windowOpensAt"]
    life = fleet.bookie(POD)["incarnation"]
    fleet.loses(POD)
    fleet.sees("it to heal", lambda: fleet.bookie(POD).get("state") == "Serving" and life < fleet.incarnations()[POD])
    assert {name for name, uid in fleet.uids().items() if before[name] != uid} == {POD}

    soon = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    fleet.edits(rollout={"ignoreWindowsUntil": soon.strftime("%Y-%m-%dT%H:%M:%SZ")})
    fleet.sees("all to be others", lambda: not fleet.uids().items() & before.items(), timeout_s=900.0)
    fleet.settled()
    fleet.edits(rollout={"windows": None, "ignoreWindowsUntil": None}, config={"flushInterval": None})
