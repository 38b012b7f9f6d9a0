"""A Spark session with the settings that this package wants, for jobs and notebooks that have no session of their own.

Nothing of the source needs it: it works in any session. It avoids two traps in one place: workers that run another
Python than the driver, and 40 ms that each task loses on a TCP socket.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bookie.base import errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {
    # 20 to 35 ms per task instead of 55 to 90 (SPARK-51688).
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}

PYTHON_TIMEOUT_S = 30
_CURE = "unset it, or name the Python in which bookie-ledger[spark] is installed, here and on every executor"


def check_java() -> None:
    """Raise BadInput when there is no Java; Spark itself takes twenty lines to say so."""
    home = os.environ.get("JAVA_HOME", "")
    if home and not os.access(os.path.join(home, "bin", "java"), os.X_OK):
        raise errors.BadInput(f"Spark needs Java 17: JAVA_HOME is {home}, where there is no bin/java: correct it")
    if not home and shutil.which("java") is None:
        raise errors.BadInput(
            "Spark needs Java 17, which is neither on PATH nor in JAVA_HOME: install it (Debian: apt-get install "
            "openjdk-17-jre-headless)"
        )


def check_python(program: str) -> None:
    """Raise BadInput unless `program`, which Spark runs to plan and to read, is a Python like this with our package.

    Spark itself would say, after ten seconds, that it knows no source of this name.
    """
    if program == sys.executable:
        return
    ask = "import sys, pyspark_bookkeeper; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [program, "-c", ask], capture_output=True, text=True, timeout=PYTHON_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"it did not answer within {PYTHON_TIMEOUT_S} s"
        raise errors.BadInput(f"PYSPARK_PYTHON is {program}, which cannot be run ({reason}): {_CURE}") from error
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise errors.BadInput(f"PYSPARK_PYTHON is {program}, which lacks this package ({reason}): {_CURE}")
    if done.stdout.strip() != ours:
        raise errors.BadInput(
            f"PYSPARK_PYTHON is {program}, Python {done.stdout.strip()}, and the driver runs {ours}: {_CURE}"
        )


@contextlib.contextmanager
def open_session(
    name: str, *, master: str | None = "local[*]", conf: Mapping[str, str] | None = None
) -> "Iterator[SparkSession]":
    """Open a session until the end of the block. `conf` goes above CONF; `master` None: spark-submit names it.

    Workers run this very Python unless PYSPARK_PYTHON says otherwise. Raises BadInput without Java, and for a
    PYSPARK_PYTHON that cannot work.
    """
    check_java()
    check_python(os.environ.setdefault("PYSPARK_PYTHON", sys.executable))
    if master is not None and master.startswith("local"):
        # A laptop whose name does not resolve, or resolves to a network that comes and goes.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**CONF, **(conf or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
