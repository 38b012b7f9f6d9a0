"""Images from outside: pulled where a registry is reachable, else made on the spot.

The base image of our Dockerfiles is imported under its public name from Debian's own packages,
so that the same Dockerfile builds in both places. A stand-in carries a label that says so; an
image without that label is never replaced.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import time
from pathlib import Path

import kube_cache
import kube_engine
import kube_errors
import kube_host
import kube_shell
import kube_talk

BASE_IMAGE = "debian:bookworm-slim"
SUITE = "bookworm"

STAND_IN_LABEL = "bookie.dev/stand-in"

ANSWER_TIMEOUT_S = 15.0
"""How long a registry may take to say that it has an image before we do without it."""

PULL_TIMEOUT_S = 900.0

CA_BUNDLE = Path("etc/ssl/certs/ca-certificates.crt")

LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "usr/share/man", "usr/share/locale", "usr/share/doc")
"""Folders emptied in the stand-in: the public slim image has nothing there either."""

_RECIPE = "debootstrap minbase, ca-certificates and this machine's authorities, 1"


def ensure_base() -> None:
    """Make BASE_IMAGE usable in a Dockerfile's FROM here."""
    key = kube_cache.key(_RECIPE, SUITE, _host_authorities())
    if is_present(BASE_IMAGE) and stand_in_key(BASE_IMAGE) in ("", key):
        return
    with kube_cache.lock("base-image"):
        if stand_in_key(BASE_IMAGE) == "" and pull(BASE_IMAGE):
            return
        archive = kube_cache.entry("base-system", key, _bootstrap)
        with kube_talk.step(f"importing a stand-in for {BASE_IMAGE}"):
            label = f"LABEL {STAND_IN_LABEL}={key}"
            kube_engine.docker("import", "--change", label, "--change", 'CMD ["bash"]', archive, BASE_IMAGE)


def is_present(image: str) -> bool:
    """Tell whether the engine has `image` already."""
    return kube_shell.succeeds("docker", "image", "inspect", image)


def stand_in_key(image: str) -> str:
    """Return what the stand-in `image` was made from; empty for a real one and for none."""
    try:
        shown = kube_engine.docker("image", "inspect", "--format", "{{json .Config.Labels}}", image)
    except kube_errors.CommandFailed:
        return ""
    return str((json.loads(shown) or {}).get(STAND_IN_LABEL, ""))


def pull(image: str) -> bool:
    """Pull `image`; False when no registry has answered for it within ANSWER_TIMEOUT_S.

    Once one answered, the transfer may take PULL_TIMEOUT_S.
    """
    with kube_talk.step(f"asking a registry for {image}"):
        started = time.monotonic()
        argv = ["docker", "pull", image]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            answered = _first_output_within(process, ANSWER_TIMEOUT_S)
            if answered:
                remaining_s = PULL_TIMEOUT_S - (time.monotonic() - started)
                try:
                    return process.wait(remaining_s) == 0
                except subprocess.TimeoutExpired:
                    pass
            process.kill()
            return False


def _first_output_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Tell whether `process` prints something in time; what it printed is dropped."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return bool(selector.select(timeout_s)) and bool(os.read(process.stdout.fileno(), 1))


def _bootstrap(archive: Path) -> None:
    """Write the base system as a compressed tar to `archive`."""
    kube_host.ensure_programs(["debootstrap"], programs=["debootstrap"], wanted_for=f"a stand-in for {BASE_IMAGE}")
    kube_host.ensure_disk_free(archive.parent, size_bytes_min=2_000_000_000)
    folder = archive.with_name(archive.name + ".d")
    kube_cache.remove(folder)
    try:
        with kube_talk.step("assembling a base system from Debian's packages"):
            argv = ["debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE]
            kube_shell.run(*argv, folder, *_mirror(), env={"PATH": kube_host.search_path()})
            _slim(folder)
            kube_shell.run("tar", "--create", "--use-compress-program=gzip -1", "--numeric-owner",
                           "--file", archive, "--directory", folder, ".")  # fmt: skip
    finally:
        kube_cache.remove(folder)


def _slim(folder: Path) -> None:
    for name in LEFT_OUT:
        shutil.rmtree(folder / name)
        (folder / name).mkdir()
    (folder / "etc/dpkg/dpkg.cfg.d/slim").write_text(
        "path-exclude /usr/share/doc/*\npath-exclude /usr/share/man/*\npath-exclude /usr/share/locale/*\n"
    )
    (folder / CA_BUNDLE).write_bytes(_host_authorities())


def _mirror() -> list[str]:
    """Return the package mirror that this machine uses, or nothing: debootstrap knows one."""
    try:
        shown = kube_shell.lines(
            "apt-get", "indextargets", "--format", "$(REPO_URI)",
            "Created-By: Packages", f"Codename: {SUITE}", "Component: main",
        )  # fmt: skip
    except kube_errors.CommandFailed:
        return []
    return list(shown[:1])


def _host_authorities() -> bytes:
    """Return this machine's certificate authorities, which its registries may depend on."""
    bundle = Path("/") / CA_BUNDLE
    return bundle.read_bytes() if bundle.exists() else b""
