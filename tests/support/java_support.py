"""The official Java BookKeeper as a judge: fetched from Maven Central when a test wants it, never shipped.

Jars and compiled classes are kept in the cache of this user, keyed by what they were made from. What is asked of the
client goes through `JavaClient`; the shell is `shell`. Nothing here may decide whether an answer is right.
"""

from __future__ import annotations

import abc
import base64
import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import kube_cache
import kube_errors
import kube_host
import kube_shell
import kube_talk
import polling
import wait_support

SOURCES = Path(__file__).parent.parent / "interop" / "java"
SHELL_TIMEOUT_S = 180.0
STACKS_TIMEOUT_S = 30.0
# Small and quick to start: a test asks a few questions, it does not measure.
SMALL_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


# Of the JAAS file that every official client of ours is told: the right password, the wrong one, and one of a user who
# is known but not allowed.
SASL_USER = "bookkeeperuser"
PASSWORDS = ("correct-horse-battery", "wrong-horse-battery", "stable-horse-battery")

# How the official writer ends when its ledger is fenced. A refused add that it waited for: fenced. The refusal was the
# third answer of an acknowledged add: closed, or, when its next add replaces the refusing bookie first and the fleet of
# three has no other: not enough bookies.
ENDS_OF_A_FENCED_WRITER = ("BKLedgerFencedException", "BKLedgerClosedException", "BKNotEnoughBookiesException")


class JavaMissing(Exception):
    """Java or Maven is not here and cannot be installed by us; the text says what to install."""


class JudgeError(Exception):
    """The Java client answered with an exception: `name` is its class, `code` its BKException code; `told` is what a
    command of the shell had printed by then."""

    def __init__(self, name: str, code: int, message: str, told: str = "") -> None:
        super().__init__(f"{name} ({code}): {message}")
        self.name = name
        self.code = code
        self.told = told


def ensure_java() -> None:
    """Have java, javac and mvn on this machine. Raises JavaMissing."""
    try:
        kube_host.ensure_programs(
            ["openjdk-17-jdk-headless", "maven"], programs=["java", "javac", "mvn"], wanted_for="the Java judge"
        )
    except kube_errors.ClusterError as error:
        raise JavaMissing(str(error)) from None


def jars() -> Path:
    """Return the folder with the official jars and their dependencies (93 MB, about half a minute the first time)."""
    pom = SOURCES / "pom.xml"
    return kube_cache.entry("bookkeeper-jars", kube_cache.key(pom), lambda target: fetch(pom, target))


def fetch(pom: Path, target: Path) -> None:
    """Put what `pom` names into `target`."""
    argv = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    with kube_talk.step("fetching the official BookKeeper from Maven Central (kept in the cache)"):
        kube_shell.run(*argv, f"-DoutputDirectory={target}", cwd=pom.parent)


def classes() -> Path:
    """Return the folder with our judge, compiled against the official jars."""
    return kube_cache.entry(
        "bookkeeper-judge",
        kube_cache.key(SOURCES),
        lambda target: compile_sources(sorted(SOURCES.glob("*.java")), jars(), target),
    )


def compile_sources(sources: Sequence[Path], against: Path, target: Path) -> None:
    """Compile `sources` into `target`, against the jars of a folder."""
    target.mkdir(parents=True)
    # classfile: official classes name annotations that are in none of the official jars.
    argv = [
        "javac",
        "-Xlint:all,-processing,-try,-classfile",
        "-Werror",
        "-cp",
        f"{against}/*",
        "-d",
        str(target),
        *map(str, sources),
    ]
    kube_shell.run(*argv)


def class_path() -> str:
    """Return Java's class path for our judge and everything official."""
    return f"{classes()}:{jars()}/*"


def shell(uri: str, folder: Path, *words: str, bookie_settings: str = "") -> str:
    """Run `bookkeeper shell WORDS` against the cluster at `uri`; return all it printed.

    It exits 0 even when it failed (local-cluster.md, 5), so callers judge the text. `folder` holds its settings file.
    """
    settings = folder / "shell.conf"
    settings.write_text(f"metadataServiceUri={uri}\nzkTimeout=30000\n{bookie_settings}")
    argv = ["java", *SMALL_JVM, f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.xml'}", "-cp", class_path()]
    done = subprocess.run(
        [*argv, "org.apache.bookkeeper.bookie.BookieShell", "-conf", str(settings), *words],
        capture_output=True,
        text=True,
        timeout=SHELL_TIMEOUT_S,
        check=False,
    )
    return done.stdout + done.stderr


class JavaAsker(abc.ABC):
    """Whoever can be asked as an official client."""

    @abc.abstractmethod
    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to one question. Raises JudgeError for a Java exception."""

    def append(self, handle: int, payloads: Sequence[bytes], **arguments: Any) -> list[int]:
        """Add `payloads` without waiting between them; return their entry ids."""
        texts = [base64.b64encode(payload).decode() for payload in payloads]
        entries: list[int] = self.ask("append", handle=handle, payloads=texts, **arguments)["entries"]
        return entries

    def read(self, handle: int, first: int, last: int, *, unconfirmed: bool = False) -> list[bytes]:
        """Read entries `first` to `last`, both included."""
        answer = self.ask("read", handle=handle, first=first, last=last, unconfirmed=unconfirmed)
        return [base64.b64decode(text) for text in answer["payloads"]]

    def batch(self, handle: int, first: int, **arguments: int) -> list[bytes]:
        """Read from `first` on what one answer brings; `countMax`, `sizeMax`."""
        answer = self.ask("batch", handle=handle, first=first, **arguments)
        return [base64.b64decode(text) for text in answer["payloads"]]


class JavaGuest(JavaAsker):
    """One more client, with settings of its own, in the process of another."""

    def __init__(self, host: JavaClient, name: str) -> None:
        self._host = host
        self._name = name

    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        return self._host.ask(operation, client=self._name, **arguments)


class JavaProcess:
    """One of our small Java programs: a line of JSON in, a line of JSON out. A Java exception is JudgeError."""

    def __init__(self, main: str, options: object, log: Path, *flags: str, classes: str = "") -> None:
        """`classes`: a class path of its own."""
        java = shutil.which("java")
        assert java is not None, "call ensure_java() first"
        self._log = log
        with log.open("ab") as complaints:
            self._process = subprocess.Popen(
                [java, *flags, "-cp", classes or class_path(), main, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                bufsize=1,
            )
        self._answer()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to one question. Raises JudgeError for a Java exception."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            complaint = self._log.read_text(errors="replace")[-6000:]
            raise JudgeError("the Java program ended", self._process.wait(), complaint)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise JudgeError(answer["error"], answer["code"], answer["message"], answer.get("told", ""))
        return answer

    def give_up(self, thread: str) -> None:
        """End the process now: whoever waits for an answer gets JudgeError, which tells where `thread` stands."""
        asked = subprocess.run(
            ["jstack", str(self.pid)], capture_output=True, text=True, timeout=STACKS_TIMEOUT_S, check=False
        )
        stacks = [each for each in asked.stdout.split("\n\n") if each.lstrip().startswith(f'"{thread}"')]
        with self._log.open("a") as complaints:
            complaints.write("\n".join(stacks) or f"no stack of {thread}: {asked.stderr}")
        self._process.kill()

    def end(self) -> None:
        """End the process: politely by end of input, then by force."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class JavaClient(JavaAsker):
    """The official client in a process of its own. Every call waits for the answer; a Java exception is JudgeError."""

    def __init__(
        self,
        uri: str,
        log: Path,
        *,
        v2: bool = False,
        explicit_lac_ms: int = 0,
        fast: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        """`fast` gives the machine code time to warm up: for measuring, not for asking."""
        self._uri = uri
        options = {"uri": uri, "v2": v2, "explicitLacMs": explicit_lac_ms}
        self._process = JavaProcess("Judge", options, log, *(("-Xmx1g",) if fast else SMALL_JVM), *flags)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to one question. Raises JudgeError for a Java exception."""
        return self._process.ask(operation, **arguments)

    @contextlib.contextmanager
    def guest(
        self, name: str, uri: str | None = None, *, v2: bool = False, explicit_lac_ms: int = 0, **settings: Any
    ) -> Iterator[JavaGuest]:
        """One more client in this process, for as long as the body runs. `settings` by their Java names."""
        guest = JavaGuest(self, name)
        options = {"uri": uri or self._uri, "v2": v2, "explicitLacMs": explicit_lac_ms, "settings": settings}
        guest.ask("connect", **options)
        try:
            yield guest
        finally:
            try:
                guest.ask("disconnect")
            except JudgeError as error:
                # Java's own: where it closes a client whose connection is being closed already. It is closed.
                if "perChannelBookieClient" not in str(error):
                    raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.end()


def payloads(ledger_id: int, count: int, size_bytes: int = 100) -> Iterator[bytes]:
    """Give `count` payloads that tell ledger and entry apart, so that a mixed-up read is seen."""
    for entry in range(count):
        yield f"ledger {ledger_id} entry {entry} ".encode().ljust(size_bytes, b".")[:size_bytes]


def jaas_file(folder: Path) -> Path:
    """Write the login configuration of a run into `folder`: users of bookies, and clients' passwords."""
    path = folder / "jaas.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    right, wrong, other = PASSWORDS
    path.write_text(
        f'Bookie {{ {module} user_{SASL_USER}="{right}" user_stranger="{other}"; }};\n'
        f'BookKeeper {{ {module} username="{SASL_USER}" password="{right}"; }};\n'
        f'WrongPassword {{ {module} username="{SASL_USER}" password="{wrong}"; }};\n'
        f'NotAllowed {{ {module} username="stranger" password="{other}"; }};\n'
    )
    return path


def create_on(client: JavaAsker, bookie_id: str, **arguments: Any) -> dict[str, Any]:
    """Create ledgers until one has `bookie_id` in its ensemble, which the placement draws; return that one."""
    seen = []

    def on_it() -> dict[str, Any] | None:
        ledger = client.ask("create", **arguments)
        seen.append(client.ask("metadata", ledger=ledger["ledger"])["segments"][0]["bookies"])
        return ledger if bookie_id in seen[-1] else None

    # A client that is connected hears of a new bookie when its watch fires.
    found = polling.first(on_it, timeout_s=60, poll_s=wait_support.POLL_S)
    assert found is not None, f"{len(seen)} ensembles without {bookie_id}: {seen[-3:]}"
    return found
