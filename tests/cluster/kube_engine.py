"""The container engine: used when it answers, installed and started where that is possible.

An engine that somebody else started is used as it is and never stopped. One that we started is
recorded by process id and start time, so that `stop` can never end another process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import kube_cache
import kube_errors
import kube_host
import kube_shell
import kube_talk

ADDRESS_POOL = "base=198.18.0.0/16,size=24"
"""Container networks of an engine we start: a range set aside for tests (RFC 2544), so that no
company network is shadowed. Pods and services have the other half (see kind.yaml)."""

CPU_SHARES = 8192
"""Weight of all containers together where cgroups are of version 1: as much as eight processes.
By default they weigh as much as one, and a cluster beside a busy test run starves to death."""

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0


def ensure() -> None:
    """Make `docker` answer: use, install, start.

    Raises NoClusterHere with one sentence when no engine can be had on this machine.
    """
    if answers():
        return
    if not kube_host.is_root():
        raise kube_errors.NoClusterHere(
            "no container engine answers, and only root may start one; start docker and try again"
        )
    with kube_cache.lock("engine"):
        if answers():
            return
        kube_host.ensure_programs(
            ["docker.io", "iptables"],
            programs=["docker", "dockerd", "runc", "iptables"],
            wanted_for="a container engine",
        )
        with kube_talk.step("starting the container engine"):
            _start()


def answers() -> bool:
    """Tell whether an engine answers `docker` now."""
    return kube_shell.succeeds("docker", "version", "--format", "{{.Server.Version}}")


def docker(*arguments: str | Path, timeout_s: float | None = None) -> str:
    """Run `docker` and return what it prints. Raises CommandFailed."""
    return kube_shell.run("docker", *arguments, env=builder_env(), timeout_s=timeout_s)


def builder_env() -> dict[str, str]:
    """Return the environment that selects an image builder which is there.

    A client newer than its engine insists on BuildKit, which then is not there; the classic
    builder understands everything that our Dockerfiles say.
    """
    return {} if _has_buildx() else {"DOCKER_BUILDKIT": "0"}


def _has_buildx() -> bool:
    folders = ("/usr/libexec/docker", "/usr/lib/docker", "/usr/local/lib/docker")
    homes = [Path(folder) for folder in folders] + [Path.home() / ".docker"]
    return any((home / "cli-plugins" / "docker-buildx").exists() for home in homes)


def stop_if_ours() -> bool:
    """Stop the engine if we started it and nothing runs in it; True when it was stopped."""
    with kube_cache.lock("engine"):
        pid = _running_pid()
        if pid is None:
            return False
        if answers() and kube_shell.lines("docker", "ps", "--quiet"):
            kube_talk.say("the container engine still runs somebody's containers: left running")
            return False
        with kube_talk.step("stopping the container engine"):
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_TIMEOUT_S
            while _running_pid() is not None:
                if time.monotonic() > deadline:
                    raise kube_errors.ClusterError(f"dockerd (pid {pid}) does not stop; see {_log()}")
                time.sleep(0.1)
        _record().unlink(missing_ok=True)
        return True


def _start() -> None:
    if kube_host.has_systemd():
        kube_shell.run("systemctl", "start", "docker")
        _wait_until_it_answers(None)
        return
    _home().mkdir(parents=True, exist_ok=True)
    argv = ["dockerd", f"--pidfile={_home() / 'pid'}", f"--default-address-pool={ADDRESS_POOL}"]
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    if kube_host.lacks_capability(status, bit=kube_host.CAP_SYS_RESOURCE):
        argv += [f"--add-runtime=fitted={_install_wrapper()}", "--default-runtime=fitted"]
    _weigh()
    (_home() / "pid").unlink(missing_ok=True)  # of a killed engine; its pid may be anybody's now
    with _log().open("w") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PATH": kube_host.search_path()},
        )
    # CRASH: killed here, an engine runs that we do not know as ours: it is then left running.
    _record().write_text(f"{process.pid} {_start_ticks(process.pid)}")
    _wait_until_it_answers(process)
    process.returncode = 0  # it outlives us on purpose: nobody waits for it, and nobody is to warn about that


def _weigh() -> None:
    controller = Path("/sys/fs/cgroup/cpu")
    if (controller / "cpu.shares").exists():
        (controller / "docker").mkdir(exist_ok=True)  # where the engine puts its containers
        (controller / "docker" / "cpu.shares").write_text(str(CPU_SHARES))


def _wait_until_it_answers(process: subprocess.Popen[bytes] | None) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not answers():
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > deadline:
            last = _log().read_text(errors="replace").splitlines()[-3:] if _log().exists() else []
            raise kube_errors.NoClusterHere(
                f"the container engine does not start here ({' / '.join(last)}); see {_log()}"
            )
        time.sleep(0.2)


def _install_wrapper() -> Path:
    source = Path(__file__).parent / "kube_runc_wrapper.py"
    wrapper = _home() / "runc_wrapper"
    # The engine outlives the checkout that started it, and so does this interpreter: not the one of its .venv.
    wrapper.write_text(f"#!{Path(sys.executable).resolve()} -IS\n{source.read_text()}")
    wrapper.chmod(0o755)
    return wrapper


def _running_pid() -> int | None:
    """Return the process id of the engine that we started, if it is still that process."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        pid, ticks = (int(word) for word in _record().read_text().split())
        if _start_ticks(pid) == ticks:
            return pid
    return None


def _start_ticks(pid: int) -> int:
    """Return when `pid` started, in clock ticks since boot; 0 when it does not run (proc(5))."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return 0 if fields[0] == "Z" else int(fields[19])
    return 0


def _home() -> Path:
    return kube_cache.root() / "engine"


def _record() -> Path:
    return _home() / "started"


def _log() -> Path:
    return _home() / "dockerd.log"
