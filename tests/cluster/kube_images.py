"""Build the images that the tests and the demo run: ours, and a ZooKeeper where none can be pulled.

The engine's own build cache decides what is new; nothing here may guess at that.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import kube_base
import kube_cache
import kube_engine
import kube_errors
import kube_home
import kube_host
import kube_talk

BOOKIE_IMAGE = "bookie:dev"
SPARK_IMAGE = "bookie-spark:dev"
ZOOKEEPER_IMAGE = "zookeeper:3.9"

ZOOKEEPER_FILES = Path(__file__).parent / "zookeeper"

ZOOKEEPER_JARS = (
    "zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java",
    "log4j-api", "log4j-core", "log4j-slf4j2-impl",
    "netty-buffer", "netty-codec-base", "netty-common", "netty-handler", "netty-resolver", "netty-tcnative-classes",
    "netty-transport", "netty-transport-classes-epoll", "netty-transport-native-unix-common",
)  # fmt: skip
"""What starts a server, lets it say why it does not, and lets it speak TLS: all of it ships inside pyspark."""

PYSPARK_PACKAGE = "pyspark>=4.1,<5"

PASSED_SETTINGS = ("PIP_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Settings of this machine that a build needs where packages come through a mirror or a proxy."""


def build_all() -> Sequence[str]:
    """Build every image that a cluster needs and return their names; the one for Spark is for who wants it."""
    return [build_bookie(), ensure_zookeeper()]


def build_bookie() -> str:
    """Build the project's image from the repository's Dockerfile and return its name."""
    kube_engine.ensure()
    kube_base.ensure_base()
    with kube_talk.step(f"building {BOOKIE_IMAGE}"):
        _build(kube_home.CHECKOUT, BOOKIE_IMAGE, "--target=bookie")
    return BOOKIE_IMAGE


def build_from(tree: Path, image: str) -> None:
    """Build the project's image as `tree`, another state of the repository, makes it, under the name `image`."""
    kube_engine.ensure()
    kube_base.ensure_base()
    _build(tree, image, "--target=bookie")


def build_spark() -> str:
    """Build the image with Spark from the same Dockerfile and return its name; minutes the first time."""
    kube_engine.ensure()
    kube_base.ensure_base()
    with kube_talk.step(f"building {SPARK_IMAGE}"):
        _build(kube_home.CHECKOUT, SPARK_IMAGE, "--target=spark")
    return SPARK_IMAGE


def ensure_zookeeper() -> str:
    """Pull the official ZooKeeper, or assemble a stand-in under its name; return the name."""
    kube_engine.ensure()
    key = kube_cache.key(ZOOKEEPER_FILES, *ZOOKEEPER_JARS)
    made_from = kube_base.stand_in_key(ZOOKEEPER_IMAGE)
    if kube_base.is_present(ZOOKEEPER_IMAGE) and made_from in ("", key):
        return ZOOKEEPER_IMAGE
    if not made_from and kube_base.pull(ZOOKEEPER_IMAGE):
        return ZOOKEEPER_IMAGE
    kube_base.ensure_base()
    jars = kube_cache.entry("zookeeper-jars", kube_cache.key(*ZOOKEEPER_JARS), _collect_jars)
    with tempfile.TemporaryDirectory(prefix="bookie-zookeeper-") as name:
        context = Path(name)
        shutil.copytree(ZOOKEEPER_FILES, context, dirs_exist_ok=True)
        shutil.copytree(jars, context / "jars")
        with kube_talk.step(f"assembling a stand-in for {ZOOKEEPER_IMAGE}"):
            _build(context, ZOOKEEPER_IMAGE, f"--label={kube_base.STAND_IN_LABEL}={key}")
    return ZOOKEEPER_IMAGE


def _build(context: Path, image: str, *options: str) -> None:
    settings = [f"--build-arg={name}" for name in PASSED_SETTINGS if os.environ.get(name)]
    # The host's network, because its names and routes are what reaches the package registries.
    kube_engine.docker("build", "--quiet", "--network=host", *settings, *options, "--tag", image, context)


def _collect_jars(target: Path) -> None:
    """Copy the jars from the pyspark that is installed, else from the Python registry's."""
    spec = importlib.util.find_spec("pyspark")
    installed = [Path(path) for path in (spec.submodule_search_locations or [])] if spec else []
    installed += kube_home.CHECKOUT.glob(".venv/lib/python3*/site-packages/pyspark")
    target.mkdir()
    if installed:
        copy_jars(installed[0] / "jars", target)
        return
    with tempfile.TemporaryDirectory(prefix="bookie-pyspark-") as name:
        with kube_talk.step("fetching ZooKeeper's jars (inside pyspark, 450 MB)"):
            kube_host.pip("install", "--quiet", "--no-deps", "--target", name, PYSPARK_PACKAGE)
        copy_jars(Path(name) / "pyspark" / "jars", target)


def copy_jars(source: Path, target: Path) -> None:
    """Copy ZOOKEEPER_JARS, of whatever version, from one folder to another."""
    for name in ZOOKEEPER_JARS:
        found = sorted(source.glob(f"{name}-[0-9]*.jar"))
        if not found:
            raise kube_errors.ClusterError(f"{source} has no {name}: ZooKeeper cannot be assembled")
        shutil.copy(found[0], target)
