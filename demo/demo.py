"""`make demo`: a bookie loses its volumes, and the fleet heals itself before your eyes.

CLUSTER=kind (default), existing or none chooses what the bookies are made of; KEEP=0 cleans up at the end. The last
line says how it went; the exit code is 0 only when every claim holds. docs/DEMO.md tells what is shown and why.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # its remarks about fork are not part of the story
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "cluster"), str(ROOT / "demo")]

import page  # noqa: E402
from fleet_local import LocalStage  # noqa: E402
from kube_errors import ClusterError, NoClusterHere  # noqa: E402
from kube_talk import say  # noqa: E402
from stage import DemoFailed, Fleet, Outcome  # noqa: E402
from story import AFTER, Story  # noqa: E402
from timeline import Timeline  # noqa: E402

REPORT = ROOT / "demo-report.html"
LOGS = ROOT / "var" / "demo"


def choose_fleet() -> Fleet:
    """Return the fleet that CLUSTER asks for, or the one that can be had here."""
    if os.environ.get("CLUSTER") == "none":
        return LocalStage(LOGS, why="CLUSTER=none was asked for")
    import kube_cluster
    from fleet_kubernetes import KubernetesStage

    try:
        kube_cluster.up()
    except NoClusterHere as reason:
        if os.environ.get("CLUSTER"):
            raise
        say(f"demo: no Kubernetes here: {reason}")
        return LocalStage(LOGS, why=f"no Kubernetes can be had here ({reason})")
    return KubernetesStage(LOGS)


def last_line(outcome: Outcome) -> tuple[bool, str]:
    """Return whether everything holds, and the one line that says so."""
    failed = [one for one in outcome.proofs if not one.holds]
    counts = " ".join(f"{name}={outcome.verdict.get(name, 0)}" for name in ("acknowledged", "verified", "lost"))
    figures = f"{counts} phase_one={outcome.last.phase_one_ms / 1000:.2f}s healed={outcome.healed_s:.1f}s"
    if AFTER in outcome.audits:
        figures += f" audit_missing={outcome.audits[AFTER]['copies']['missing']}"
    how = f" {outcome.title}" if outcome.title else ""
    if failed or not outcome.proofs:
        return False, f"demo: FAILED{how} {figures}: {failed[0].claim if failed else 'nothing was proven'}"
    return True, f"demo: OK{how} {figures}"


def main() -> int:
    keep = os.environ.get("KEEP", "1") != "0"
    LOGS.mkdir(parents=True, exist_ok=True)
    timeline = Timeline(say)
    fleet: Fleet | None = None
    outcome = Outcome("")
    failure = ""
    try:
        fleet = choose_fleet()
        story = Story(fleet, timeline, look_at=str(LOGS))
        outcome = story.outcome
        story.run()
    except DemoFailed as error:
        failure = f"demo: FAILED: {error}; look at {error.look_at}"
    except ClusterError as error:
        failure = f"demo: FAILED: {error}"
    except KeyboardInterrupt:
        failure = "demo: FAILED: stopped by hand"
    except Exception as error:  # noqa: BLE001 -- a fault of the demo itself still ends in one line and a page
        (LOGS / "traceback.txt").write_text(traceback.format_exc())
        failure = f"demo: FAILED: {type(error).__name__}: {error}; look at {LOGS / 'traceback.txt'}"
    ok, line = last_line(outcome)
    if failure:
        ok, line = False, failure
    REPORT.write_text(page.page(outcome, timeline, line, ok=ok))
    hint = where = ""
    if fleet is not None:
        where = "" if ok else f"What was there when it failed: {fleet.diagnose()}"
        hint = fleet.close(keep=keep)
    for text in (where, hint, f"The page: {REPORT}", outcome.not_shown):
        if text:
            say(text)
    print(line, flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
