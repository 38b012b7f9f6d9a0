"""The command: a real Kubernetes for the tests and the demo.

Data on standard output, talk on standard error. Exit codes: 0 done, 1 failed, 2 usage, 3 no
cluster can be had on this machine, so that callers can fall back. No rule about clusters may
stand here.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence

import kube_cluster
import kube_errors
import kube_home
import kube_images
import kube_load
import kube_talk
import kube_tools

FAILED, NO_CLUSTER_HERE, INTERRUPTED = 1, 3, 130

DESCRIPTION = """\
Brings up a real Kubernetes for the tests and the demo: three nodes in three zones.

CLUSTER=kind (the default) makes a cluster of this checkout's own; CLUSTER=existing uses the
current kubectl context, and IMAGE_REGISTRY then names a registry that its nodes can pull from.
What was built is kept in the XDG cache directory under bookie/.
"""


def main(arguments: Sequence[str]) -> int:
    """Run one verb and return the exit code."""
    if arguments[:1] in (["kubectl"], ["helm"]):  # their flags are theirs, not ours to parse
        return _guarded(lambda: _become(arguments[0], arguments[1:]))
    parsed = _parser().parse_args(arguments)
    return _guarded(lambda: parsed.run(parsed))


def _guarded(run: Callable[[], None]) -> int:
    try:
        run()
    except kube_errors.NoClusterHere as error:
        kube_talk.say(f"no cluster can be had here: {error}")
        return NO_CLUSTER_HERE
    except kube_errors.ClusterError as error:
        kube_talk.say(f"failed: {error}")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cluster.py", description=DESCRIPTION, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    def verb(name: str, run: Callable[[argparse.Namespace], None], text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added

    verb("up", lambda _: print(kube_cluster.up()), "make or reuse the cluster, print its kubeconfig")
    verb("prepare", lambda _: _prepare(), "build what a cluster is made of and the images, and no cluster")
    verb("image", lambda _: _print_lines(_images()), "build the images, print their names")
    load = verb("load", lambda parsed: kube_load.load(parsed.images), "bring images to all nodes")
    load.add_argument("images", nargs="+", metavar="IMAGE")
    verb("load-all", lambda _: kube_load.load(_images()), "build the images and bring them to all nodes")
    verb("env", lambda _: _print_lines(_exports()), 'lines for the shell: eval "$(cluster.py env)"')
    verb("down", lambda _: kube_cluster.down(), "remove what `up` started, and nothing else")
    status = verb("status", _print_status, "say what is there")
    status.add_argument("--json", action="store_true", help="as one JSON object")
    verb("kubeconfig", lambda _: print(kube_tools.kubeconfig()), "print the kubeconfig's path")
    verb("kubectl", lambda _: None, "run kubectl against the cluster: kubectl ARGS...")
    verb("helm", lambda _: None, "run helm against the cluster: helm ARGS...")
    return parser


def _prepare() -> None:
    kube_cluster.prepare()
    if kube_home.mode() is kube_home.Mode.KIND:
        _images()


def _images() -> Sequence[str]:
    return [*kube_images.build_all(), kube_images.build_spark()]


def _exports() -> Sequence[str]:
    """Point a shell's own kubectl and helm at this checkout's cluster, with the very tools that tests use. Raises
    ClusterError where there is none."""
    _check_is_there()
    tools = kube_home.this().folder / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    for name, path in (("kubectl", kube_tools.kubectl_path()), ("helm", kube_tools.helm_path())):
        if path != tools / name:
            (tools / name).unlink(missing_ok=True)
            (tools / name).symlink_to(path)
    return [
        f"export KUBECONFIG={shlex.quote(str(kube_tools.kubeconfig()))}",
        f"export PATH={shlex.quote(str(tools))}:$PATH",
    ]


def _check_is_there() -> None:
    """Raise ClusterError without a cluster: kubectl would ask whoever is at localhost:8080, and blame that."""
    if kube_home.mode() is kube_home.Mode.KIND and not kube_tools.kubeconfig().exists():
        raise kube_errors.ClusterError("this checkout has no Kubernetes yet: `make cluster` makes one")


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(line)


def _print_status(parsed: argparse.Namespace) -> None:
    facts = kube_cluster.status()
    if parsed.json:
        print(json.dumps(facts))
        return
    for name, fact in facts.items():
        print(f"{name}: {fact}")


def _become(tool: str, arguments: Sequence[str]) -> None:
    """Become kubectl or helm, pointed at the cluster. Returns only by raising: ClusterError where there is none."""
    _check_is_there()
    path = kube_tools.kubectl_path() if tool == "kubectl" else kube_tools.helm_path()
    os.execve(path, [tool, *arguments], {**os.environ, **kube_tools.environment()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
