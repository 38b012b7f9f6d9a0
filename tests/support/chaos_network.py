"""Machines of the test's own: network namespaces on one bridge, whose links can be cut one by one.

    tests, writers ── bridge 198.19.250.1 ──┬── zookeeper .2
                                            ├── bookie-1  .11
                                            └── …

Needs root and iproute2. Everything is named after this process and removed at the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SUBNET = "198.19.250"
HERE = f"{SUBNET}.1"


def why_not() -> str:
    """Return why no namespaces can be made here; empty when they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    probe = subprocess.run(["ip", "netns", "add", f"probe-{os.getpid()}"], capture_output=True, text=True, check=False)
    if probe.returncode:
        return f"network namespaces cannot be made here: {probe.stderr.strip()}"
    _do("ip", "netns", "del", f"probe-{os.getpid()}")
    return ""


@dataclass(frozen=True, slots=True)
class Machine:
    """One namespace. `enter` is what goes before a command that is to run in it."""

    name: str
    address: str

    @property
    def enter(self) -> Sequence[str]:
        # Not `ip netns exec`: that copies the mounts too, and a disk could not be mended under the copies.
        return ("nsenter", f"--net=/run/netns/{self.name}")

    def cut_off(self, other: str) -> None:
        """Packets to `other` vanish, hence no answer comes from there either."""
        _do(*self.enter, "ip", "route", "add", "blackhole", f"{other}/32")

    def reach(self, other: str) -> None:
        _do(*self.enter, "ip", "route", "del", "blackhole", f"{other}/32")


class Network:
    """Use through `network`. `machine` makes one more."""

    def __init__(self) -> None:
        self._tag = f"{os.getpid() % 100_000}"
        self.bridge = f"chaos{self._tag}"
        self._stack = contextlib.ExitStack()

    def open(self) -> None:
        self._both(("ip", "link", "add", self.bridge, "type", "bridge"), ("ip", "link", "del", self.bridge))
        _do("ip", "addr", "add", f"{HERE}/24", "dev", self.bridge)
        _do("ip", "link", "set", self.bridge, "up")
        if shutil.which("iptables"):  # an engine of containers may have closed bridges to everybody else
            rule = ("FORWARD", "-i", self.bridge, "-o", self.bridge, "-j", "ACCEPT")
            self._both(("iptables", "-I", *rule), ("iptables", "-D", *rule))

    def machine(self, number: int) -> Machine:
        """`number`: the last part of its address, and its name."""
        made = Machine(f"chaos-{self._tag}-{number}", f"{SUBNET}.{number}")
        inner, outer = f"e{self._tag}-{number}", f"o{self._tag}-{number}"
        self._both(("ip", "netns", "add", made.name), ("ip", "netns", "del", made.name))
        _do("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", made.name)
        _do("ip", "link", "set", outer, "master", self.bridge)
        _do("ip", "link", "set", outer, "up")
        _do(*made.enter, "ip", "addr", "add", f"{made.address}/24", "dev", inner)
        _do(*made.enter, "ip", "link", "set", inner, "up")
        _do(*made.enter, "ip", "link", "set", "lo", "up")
        return made

    def close(self) -> None:
        self._stack.close()

    def _both(self, do: Sequence[str], undo: Sequence[str]) -> None:
        _do(*do)
        self._stack.callback(subprocess.run, list(undo), check=False, capture_output=True)


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """A bridge of our own until the body ends."""
    made = Network()
    try:
        made.open()
        yield made
    finally:
        made.close()


def _do(*command: str) -> None:
    told = subprocess.run(list(command), capture_output=True, text=True, check=False, timeout=30)
    assert told.returncode == 0, f"{' '.join(command)}: {told.stderr.strip()}"
