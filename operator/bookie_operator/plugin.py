"""`kubectl bookies`: what the person on call asks of a fleet, and a report to send with a question. It changes nothing.

It runs `kubectl` (context, user and proxy are whatever that has), so that it needs no rights but the caller's.
"""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bookie.base import help_first
from bookie.base.errors import BadInput, BookieError
from bookie.runtime import streams
from bookie_operator.model import cluster as clusters
from bookie_operator.model import names
from bookie_operator.model.status import NOBODY_LOOKED, BookieClusterStatus, BookieStatus, Condition
from bookie_operator.resources.common import Manifest

PROGRAM = "kubectl bookies"
DONE, FAILED, UNWELL, NOT_KNOWN = 0, 1, 3, 6
# States of a bookie that waits for nothing.
_IN_ORDER = ("Serving", "Retired", "Elsewhere")
_SAYS_MAX = 100
_NAMES = re.compile(r"[\w-]+")
_NOT_TOLD = "<not in this report>"
# What is fine when it is True; every other condition is fine when it is False.
_GOOD_WHEN_TRUE = ("Ready", "Available", "StorageHealthy", "UpToDate")
_KINDS = (
    "bookieclusters,statefulsets,deployments,controllerrevisions,pods,persistentvolumeclaims,poddisruptionbudgets,jobs,"
    "services"
)
_OPERATOR = "app.kubernetes.io/name=bookie-operator"
_LOG_LINES = 5000

Kubectl = Callable[..., str]


class KubectlFailed(BookieError):
    """kubectl is not there, or refused."""


def kubectl(*arguments: str) -> str:
    """Run kubectl; return what it prints. Raises KubectlFailed with its words."""
    program = os.environ.get("KUBECTL", "kubectl")
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise KubectlFailed(f"{program} is not on PATH: install it, or name it in KUBECTL") from None
    if done.returncode:
        raise KubectlFailed(done.stderr.strip() or f"{program} ended with {done.returncode}")
    return done.stdout


def main(arguments: Sequence[str] | None = None, run: Kubectl = kubectl) -> int:
    """Run one verb; return its exit code: 0 done and well, 1 failed, 2 usage, 3 done and something is not well, 6 done
    and nothing is known to be amiss, but something was not seen."""
    with streams.guarded(PROGRAM):
        return _run(_parser().parse_args(arguments), run)


def _run(args: argparse.Namespace, run: Kubectl) -> int:
    where: tuple[str, ...] = ("--namespace", args.namespace) if args.namespace else ()
    if args.context:
        where += ("--context", args.context)
    try:
        code: int = args.verb(args, lambda *words: run(*where, *words))
    except BrokenPipeError:
        raise  # whoever read standard output went away: nothing to say
    except (BookieError, OSError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = help_first.Parser(prog=PROGRAM, description="What a fleet of bookies needs. Changes nothing.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for name, verb, text in (
        ("status", _status, "every bookie, and each condition that is not as it should be"),
        (
            "why",
            _why,
            "what waits, for what: bookies that do not serve or leave, closed gates, the roll-out, whatever stalls",
        ),
        ("history", _history, "the regenerations that the status remembers"),
        ("report", _report, "a .tar.gz of resources, events and logs, without secrets, to send with a question"),
    ):
        one = verbs.add_parser(name, help=text)
        one.add_argument("cluster", nargs="?", help="the BookieCluster; may be left out where there is one")
        one.add_argument("-n", "--namespace", default="", help="none = that of your context")
        one.add_argument("--context", default="", help="none = the current one")
        if name == "report":
            one.add_argument("-o", "--output", default="", metavar="FILE", help="default: CLUSTER-TIME.tar.gz")
            one.add_argument("--operator-namespace", default="bookie-system", help="where the operator runs")
        one.set_defaults(verb=verb)
    return parser


def _cluster(args: argparse.Namespace, run: Kubectl) -> Manifest:
    """Return the cluster that is meant. Raises BadInput when none, or more than one, may be."""
    if args.cluster:
        found: Manifest = json.loads(run("get", names.KIND, args.cluster, "--output=json"))
        return found
    items: list[Manifest] = json.loads(run("get", names.KIND, "--output=json"))["items"]
    if len(items) == 1:
        return items[0]
    there = ", ".join(item["metadata"]["name"] for item in items) or "none"
    raise BadInput(f"name the BookieCluster: there are {there} (and -n NAMESPACE for another namespace)")


def _status(args: argparse.Namespace, run: Kubectl) -> int:
    manifest = _cluster(args, run)
    status = clusters.parse_status(manifest.get("status"))
    old, unknown = _age(manifest, status, run)
    print("\n".join([*told(manifest, status, old), *unknown]))
    return UNWELL if old else _health(status)


def _health(status: BookieClusterStatus) -> int:
    """Return what the conditions say: what nobody could look at is neither well nor amiss."""
    found = {one.status for one in unwell(status)}
    if found - {"Unknown"}:
        return UNWELL
    return NOT_KNOWN if found or not status.conditions else DONE


def told(manifest: Manifest, status: BookieClusterStatus, old: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of `status`: the summary, why all is `old`, the bookies, the conditions that are not in order."""
    metadata = manifest["metadata"]
    yield f"{metadata.get('namespace', '')}/{metadata['name']}: {status.phase or 'nothing said yet'}; {status.summary}"
    yield from old
    rows = [("BOOKIE", "STATE", "CONCLUSION", "NODE", "LIFE", "SAYS")]
    for entry in (*status.bookies, *status.orphans):
        life = f"{entry.incarnation}.{entry.boot_epoch}"
        says = entry.message or entry.reason
        says = says if len(says) <= _SAYS_MAX else f"{says[:_SAYS_MAX]}... (`why` has the rest)"
        rows.append((entry.name, entry.state, entry.verdict, entry.node or "-", life, says))
    yield from _columns(rows)
    yield from _amiss(status)


def _amiss(status: BookieClusterStatus) -> Iterator[str]:
    """Yield a line for each thing that is not in order, with all the conditions that say so in the same words."""
    same: dict[tuple[str, str], list[str]] = {}
    for one in unwell(status):
        same.setdefault((one.reason, one.message), []).append(f"{one.type}={one.status}")
    yield from (f"{' '.join(kinds)} {reason}: {message}" for (reason, message), kinds in same.items())


def unwell(status: BookieClusterStatus) -> Iterator[Condition]:
    """Yield each condition that is not as in a fleet in order."""
    for one in status.conditions:
        if one.status != ("True" if one.type in _GOOD_WHEN_TRUE else "False"):
            yield one


def _age(manifest: Manifest, status: BookieClusterStatus, run: Kubectl) -> tuple[list[str], list[str]]:
    """Return why the status is of before: its writer does not run, or has not seen the spec; and what nobody could
    look at of that."""
    old, unknown = [], []
    try:
        if away := _operator_away(status, run):
            old.append(away)
    except KubectlFailed as error:
        unknown.append(f"whether the operator runs was not seen: {error}")
    generation = manifest["metadata"].get("generation", status.observed_generation)
    if status.observed_generation != generation:
        old.append(f"the operator has not seen generation {generation} yet: what follows is of before")
    if status.summary.startswith(NOBODY_LOOKED):
        old.append("the operator does not look at the bookies (Stalled says why): they are told as it saw them last")
    return old, unknown


def _operator_away(status: BookieClusterStatus, run: Kubectl) -> str:
    """Return in words that the process that wrote the status is not at work, or perhaps not; "" where it is, and where
    none wrote.

    Its lease has no time of its renewal, so that its pod has to tell: it is ready while it can lead, read and write
    (what is not ready may still do so for this cluster, where it fails for another).
    """
    told = status.operator
    if told is None or not told.owner or not told.leader:
        return ""
    namespace, pod = told.owner.partition("/")[0], told.leader.partition("_")[0]
    answer = run("--namespace", namespace, "get", "pod", pod, "--ignore-not-found", "--output=json")
    where = f"pod {pod} in namespace {namespace}"
    if not answer.strip():
        gone = f"the operator that wrote this does not run: {where} is not there (kubectl -n {namespace} get pods)"
        return f"{gone}: what follows is of before"
    conditions = (json.loads(answer).get("status") or {}).get("conditions") or ()
    if not any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        unready = f"the operator that wrote this is not ready: {where} (kubectl -n {namespace} describe pod {pod})"
        return f"{unready}: what follows may be of before"
    return ""


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _why(args: argparse.Namespace, run: Kubectl) -> int:
    manifest = _cluster(args, run)
    status = clusters.parse_status(manifest.get("status"))
    old, unknown = _age(manifest, status, run)
    waiting = [*waits(status)]
    lines = [*old, *waiting]
    print("\n".join([*old, *(waiting or ["nothing waits" if not old else "nothing waited then"]), *unknown]))
    return UNWELL if lines else DONE


def waits(status: BookieClusterStatus) -> Iterator[str]:
    """Yield a sentence for each thing that waits: the stall, a pause, bookies that are down or leave, the fleet."""
    stalled = status.condition("Stalled")
    words = stalled.message if stalled is not None and stalled.status == "True" else ""
    if stalled is not None and stalled.status == "True":
        yield f"stalled, {stalled.reason}: {words}"
    reconciling = status.condition("Reconciling")
    if reconciling is not None and reconciling.reason == "Paused":
        yield reconciling.message
    for entry in (*status.bookies, *status.orphans):
        yield from _waits_of_bookie(entry, is_told=entry.name in _NAMES.findall(words))
    rollout = status.rollout
    done = "" if rollout is None else f" ({rollout.updated} of {rollout.desired} done)"
    for what, part in (
        (f"the roll-out{done}", rollout),
        ("the eviction of pods", status.eviction),
        ("the growth of volumes", status.expansion),
        ("the rebuild", status.rebuild),
        ("the sleep", status.hibernation),
    ):
        if part is not None and part.waiting_for:
            yield f"{what} waits: {part.waiting_for}"


def _waits_of_bookie(entry: BookieStatus, *, is_told: bool) -> Iterator[str]:
    """Yield what this bookie waits for. `is_told`: the stall says already why it does not serve."""
    for gate in entry.gates:
        yield f"{entry.name} waits at {gate.name}: {gate.message}"
    leaving = entry.leaving
    if leaving is not None and not leaving.state.is_gone:
        left = f", {leaving.ledgers_left} of {leaving.ledgers_total} ledgers left" if leaving.ledgers_total else ""
        why = f": {leaving.waiting_for}" if leaving.waiting_for else ""
        yield f"{entry.name} leaves ({leaving.state.value}{left}){why}"
    elif not is_told and not entry.gates and entry.state not in _IN_ORDER:
        reason = f", {entry.reason}" if entry.reason != entry.state else ""
        yield f"{entry.name} is {entry.state}{reason}: {entry.message}"
    if entry.progress is not None and entry.progress.blocked_ledgers:
        number = entry.progress.blocked_ledgers
        yield f"{entry.name}: {number} of its ledgers are blocked (`bookie integrity status` in its pod names them)"


def _history(args: argparse.Namespace, run: Kubectl) -> int:
    status = clusters.parse_status(_cluster(args, run).get("status"))
    rows = [("GRANTED", "BOOKIE", "LIFE", "PROFILE", "RESULT", "ENTRIES", "BY")]
    for entry in status.history:
        life, entries = str(entry.incarnation), str(entry.entries)
        rows.append((entry.granted_at, entry.bookie, life, entry.profile, entry.result, entries, entry.given_by))
    print("\n".join(_columns(rows)) if status.history else "no regeneration is remembered")
    return DONE


def _report(args: argparse.Namespace, run: Kubectl) -> int:
    manifest = _cluster(args, run)
    name = manifest["metadata"]["name"]
    path = Path(args.output or f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz")
    with tarfile.open(path, "x:gz") as archive:
        for file, text in _contents(manifest, args.operator_namespace, run):
            data = text.encode()
            about = tarfile.TarInfo(f"{name}/{file}")
            about.size, about.mode, about.mtime = len(data), 0o644, int(time.time())
            archive.addfile(about, io.BytesIO(data))
    print(f"{path}: no Secret is in it, and no value of an environment variable; read it before you send it")
    return DONE


def _contents(manifest: Manifest, operator_namespace: str, run: Kubectl) -> Iterator[tuple[str, str]]:
    """Yield (file, text). What cannot be read says why in its place: a report with a hole is better than none."""
    name = manifest["metadata"]["name"]
    status = clusters.parse_status(manifest.get("status"))
    old, unknown = _age(manifest, status, run)
    yield "status.txt", "\n".join((*told(manifest, status, old), *unknown, "", *waits(status))) + "\n"
    of_cluster = f"--selector={names.LABEL_CLUSTER}={name}"
    asked: list[tuple[str, tuple[str, ...]]] = [
        ("cluster.json", ("get", names.KIND, name, "--output=json")),
        ("objects.json", ("get", _KINDS, of_cluster, "--output=json")),
        ("record.json", ("get", "configmap", names.record(name), "--output=json")),
        ("events.json", ("get", "events.events.k8s.io", "--output=json")),
        ("nodes.txt", ("get", "nodes", "--output=wide")),
        ("version.json", ("version", "--output=json")),
        (
            "operator.log",
            ("--namespace", operator_namespace, "logs", f"--selector={_OPERATOR}", f"--tail={_LOG_LINES}"),
        ),
    ]
    for entry in status.bookies:
        logs = ("logs", entry.name, "--container", names.CONTAINER, f"--tail={_LOG_LINES}")
        asked += [(f"logs/{entry.name}.log", logs), (f"logs/{entry.name}.before.log", (*logs, "--previous"))]
    for file, words in asked:
        try:
            text = run(*words)
        except KubectlFailed as error:
            yield file, f"{error}\n"
            continue
        if not text.strip():
            yield file, f"nothing was printed by kubectl {' '.join(words)}\n"
            continue
        yield file, _without_secrets(text) if file.endswith(".json") else text


def _without_secrets(text: str) -> str:
    """Return the JSON document `text` without values of environment variables and without what Helm and kubectl store
    beside an object (`last-applied-configuration` repeats it whole)."""

    def clean(value: object) -> object:
        if isinstance(value, list):
            return [clean(one) for one in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("env"), list):
            value = value | {"env": [_hidden(one) for one in value["env"]]}
        kept = {key: one for key, one in value.items() if key not in ("managedFields", _LAST_APPLIED)}
        return {key: clean(one) for key, one in kept.items()}

    return json.dumps(clean(json.loads(text)), indent=1) + "\n"


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _hidden(variable: object) -> object:
    return variable | {"value": _NOT_TOLD} if isinstance(variable, dict) and "value" in variable else variable


if __name__ == "__main__":
    sys.exit(main())
