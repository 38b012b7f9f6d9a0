"""The embedded ZooKeeper: Java from JAVA_HOME or PATH, and the jars that are inside pip's pyspark."""

import importlib.util
import os
import shutil
from pathlib import Path

from bookie.base import errors, extras

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
# All that a server needs (local-cluster.md, 4); logging without an implementation is silent.
_JARS = ("zookeeper-[0-9]*", "zookeeper-jute-*", "slf4j-api-*", "metrics-core-*", "snappy-java-*")
# Sessions of 2 to 20 ticks: a killed bookie's record goes within seconds, a stalled one keeps it.
_TICK_MS = 1000
# Java 17 names files in the locale's encoding, and in that of LANG=C it can name none beyond ASCII.
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def find_java() -> str:
    """Return the path of the `java` program. Raises BadInput that names what to install."""
    home = os.environ.get("JAVA_HOME", "")
    if home:
        path = Path(home) / "bin" / "java"
        if os.access(path, os.X_OK):
            return str(path)
        raise errors.BadInput(f"JAVA_HOME is {home}, but there is no program {path}: correct or unset JAVA_HOME")
    found = shutil.which("java")
    if found is None:
        raise errors.BadInput(
            "the embedded ZooKeeper needs Java, which is neither on PATH nor in JAVA_HOME: install it (Debian:"
            " apt-get install openjdk-17-jre-headless), or name a running ZooKeeper with --metadata-service-uri"
        )
    return found


def find_jars() -> list[str]:
    """Return the jars of a ZooKeeper server. Raises BadInput when pyspark, which has them, is not installed."""
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec is not None and spec.origin else None
    jars = [sorted(folder.glob(f"{pattern}.jar")) for pattern in _JARS] if folder is not None else []
    if not jars or not all(jars):
        raise errors.BadInput(
            "the embedded ZooKeeper uses the jars inside pyspark, which is not installed:"
            f" {extras.INSTALL.format('spark')}, or name a running ZooKeeper with --metadata-service-uri"
        )
    return [str(found[-1]) for found in jars]


def zookeeper_command(folder: Path, port: int) -> list[str]:
    """Write the server's settings into `folder`; return the command that runs it on loopback."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    settings = folder / "zoo.cfg"
    settings.write_text(
        f"clientPort={port}\nclientPortAddress=127.0.0.1\ndataDir={_escaped(str(data))}\ntickTime={_TICK_MS}\n"
        "maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
        "autopurge.snapRetainCount=3\nautopurge.purgeInterval=1\n",
        encoding="utf-8",
    )
    return [find_java(), *_JVM, "-cp", os.pathsep.join(find_jars()), MAIN_CLASS, str(settings)]


def _escaped(path: str) -> str:
    """Return `path` as a value of java.util.Properties, which takes bytes for Latin-1 and a backslash for the beginning
    of another character: ZooKeeper's data would lie beside the fleet's folder, under a name that nobody chose."""
    units = path.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F and code != ord("\\") else f"\\u{code:04x}" for code in codes)
