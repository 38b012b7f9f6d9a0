"""`bookie-operator run | crds | render FILE | plan FILE`."""

import argparse
import asyncio
import json
import logging
import os
import sys
from pathlib import Path

from bookie.base import extras, help_first
from bookie.base.errors import BadInput, BookieError
from bookie.runtime import streams

PROGRAM, EXTRA = "bookie-operator", "operator"
with extras.told(PROGRAM, EXTRA):
    import yaml

DONE, FAILED, USAGE = 0, 1, 2
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 usage or bad input."""
    with streams.guarded(PROGRAM), extras.told(PROGRAM, EXTRA):
        args = _parser().parse_args(arguments)
        try:
            return int(args.command(args))
        except BrokenPipeError:
            raise  # whoever read standard output went away: nothing to say
        except (BookieError, OSError, yaml.YAMLError) as error:
            print(f"bookie-operator: {error}", file=sys.stderr)
            return USAGE if isinstance(error, BadInput) else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = help_first.Parser(prog="bookie-operator", description="Keeps BookieClusters as their spec says.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="be the operator (in a pod, or with a kubeconfig)")
    run.add_argument("--namespace", default=os.environ.get("POD_NAMESPACE", ""), help="where the lease lives")
    run.add_argument("--watch-namespace", action="append", default=[], help="repeatable; none = all namespaces")
    run.add_argument(
        "--selector", default="", help="labels of the BookieClusters to keep, as in kubectl -l; none = all"
    )
    run.add_argument("--lease-name", default="bookie-operator", help="operators of one name take turns")
    run.add_argument("--image", default=os.environ.get("BOOKIE_IMAGE", ""), help="image of bookies that name none")
    run.add_argument("--http-port", type=int, default=8080, help="health and metrics")
    run.add_argument("--kubeconfig", default="", help="none = the pod's service account, else the usual places")
    run.add_argument("--rolling-clusters-max", type=int, default=0, help="so many roll out at a time; 0 = any number")
    run.add_argument(
        "--log-level", type=_log_level, default=os.environ.get("LOG_LEVEL", "INFO"), help=", ".join(LOG_LEVELS)
    )
    run.set_defaults(command=_run)
    crds = commands.add_parser("crds", help="print the CustomResourceDefinitions")
    crds.add_argument("--output", action="append", default=[], help="write into this folder instead; repeatable")
    crds.set_defaults(command=_crds)
    render = commands.add_parser("render", help="print the children of the BookieCluster in FILE")
    render.add_argument("file", help="a BookieCluster manifest; - is standard input")
    render.add_argument("--image", default="bookie:latest")
    render.set_defaults(command=_render)
    plan = commands.add_parser("plan", help="print what would be done, from recorded objects and reports")
    plan.add_argument("file", help="YAML: a BookieCluster, its live objects, StorageReports; - is standard input")
    plan.add_argument("--image", default="bookie:latest")
    plan.add_argument("--json", action="store_true", help="the whole resulting status as JSON")
    plan.set_defaults(command=_plan)
    return parser


def _log_level(text: str) -> str:
    if text.upper() not in LOG_LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is no level: give one of {', '.join(LOG_LEVELS)}")
    return text.upper()


def _run(args: argparse.Namespace) -> int:
    # The API client is heavy: only `run` pays for it.
    from bookie_operator import app
    from bookie_operator.options import OperatorOptions

    logging.basicConfig(
        level=args.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    for noisy in ("kopf.objects", "kopf._core", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    pod, uid = os.environ.get("POD_NAME", os.uname().nodename), os.environ.get("POD_UID", str(os.getpid()))
    options = OperatorOptions(
        namespace=args.namespace,
        identity=f"{pod}_{uid}",
        image=args.image,
        watch_namespaces=tuple(args.watch_namespace),
        selector=args.selector,
        lease_name=args.lease_name,
        http_port=args.http_port,
        kubeconfig=args.kubeconfig,
        rolling_clusters_max=args.rolling_clusters_max,
        crash_after=_crash_after(),
        crash_dir=os.environ.get("TMPDIR", "/tmp"),
    )
    return asyncio.run(app.run(options))


def _crash_after() -> int:
    """Return after which write the test hook strikes (`crash.py`). Raises BadInput."""
    text = os.environ.get("BOOKIE_OPERATOR_CRASH_AFTER", "0")
    try:
        return int(text)
    except ValueError:
        problem = f"BOOKIE_OPERATOR_CRASH_AFTER is {text[:40]!r}: give 0 (never) or the number of a write"
        raise BadInput(problem) from None


def _crds(args: argparse.Namespace) -> int:
    from bookie_operator.model import crd

    if not args.output:
        sys.stdout.write("---\n".join(crd.texts().values()))
    if not all(args.output):  # as of a shell's variable that is not set: it would be the working directory
        raise BadInput("an empty word stands behind --output: name a folder")
    for path, text in ((Path(folder) / name, text) for folder in args.output for name, text in crd.texts().items()):
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}: name another folder") from None
    return DONE


def _bytes_of(path: str) -> bytes:
    """Return what is in a file, in a pipe that a command of the shell writes (`<(kubectl get ...)`), or in standard
    input."""
    if path == "-":
        if sys.stdin is not None and sys.stdin.isatty():
            print(f"{PROGRAM}: standard input is read until Ctrl-D", file=sys.stderr, flush=True)
        return streams.read_stdin()
    if Path(path).is_fifo():
        print(f"{PROGRAM}: {path} is a pipe: it is read until it ends", file=sys.stderr, flush=True)
    # As heavy as the rest of these commands: only they pay for it.
    from bookie import connect

    return connect.read_file(path)


def _name_of(path: str) -> str:
    return "standard input" if path == "-" else path


def _documents(path: str) -> list[dict[str, object]]:
    """Return the objects in a file. Raises BadInput, which names it."""
    name = _name_of(path)
    try:
        found = [document for document in yaml.safe_load_all(_bytes_of(path).decode()) if document]
    except UnicodeDecodeError:
        raise BadInput(f"{name} is no text in UTF-8: name the right file") from None
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}: name another file") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{name} is no YAML ({' '.join(str(error).split())}): correct it") from None
    for document in found:
        items = (document.get("items") or [document]) if isinstance(document, dict) else [None]
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise BadInput(f"{name} holds something else than objects of Kubernetes: name a manifest")
    return found


def _render(args: argparse.Namespace) -> int:
    from bookie_operator import offline

    yaml.safe_dump_all(
        offline.children(offline.items(_documents(args.file)), args.image, name=_name_of(args.file)),
        sys.stdout,
        sort_keys=False,
    )
    return DONE


def _plan(args: argparse.Namespace) -> int:
    from bookie_operator import offline

    objects = offline.items(_documents(args.file))
    # Live objects may be of a newer CRD than ours, whose defaults stand in them: no reason to say nothing of the rest.
    for problem in offline.unknown(objects):
        print(f"{PROGRAM}: careful: {problem}", file=sys.stderr)
    plan = offline.plan(objects, args.image, name=_name_of(args.file))
    if args.json:
        json.dump(offline.status(plan), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        sys.stdout.write("\n".join(offline.explain(plan)) + "\n")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
