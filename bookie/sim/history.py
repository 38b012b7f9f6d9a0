"""Remembers what the metadata store held at each commit, for sessions whose server lags behind, as followers do.

A session's reads never go back in time, and see its own writes and each change that a watch told it of; all other data
may be old, until a `sync`. Pure.
"""

from bisect import bisect_right

from bookie.base import errors
from bookie.ports.metadata_store import Stored
from bookie.sim.znodes import Tree


class TreeHistory:
    """The past of one tree. Call `note` for every path at every commit that touched it."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._states: dict[str, list[tuple[int, Stored | None, tuple[str, ...]]]] = {}
        self._times: list[tuple[int, int]] = [(0, 0)]  # (true time in ns, commits until then)

    def note(self, path: str, now_ns: int) -> None:
        """Note that the commit under way changed `path`."""
        commit = self._tree.commits
        node = self._tree.nodes.get(path)
        stored = None if node is None else self._tree.get(path)
        names = () if node is None else tuple(self._tree.children(path))
        self._states.setdefault(path, []).append((commit, stored, names))
        if self._times[-1][0] == now_ns:
            self._times[-1] = (now_ns, commit)
        else:
            self._times.append((now_ns, commit))

    def forget_after(self, commits: int) -> None:
        """Forget what a failed transaction noted."""
        for path in list(self._states):
            states = self._states[path]
            while states and states[-1][0] > commits:
                states.pop()
        while self._times[-1][1] > commits:
            self._times.pop()

    def commits_at(self, true_ns: int) -> int:
        """Return how many commits there were by then."""
        return self._times[max(0, bisect_right(self._times, (true_ns, 1 << 62)) - 1)][1]

    def get(self, path: str, commits: int) -> Stored:
        """Return the node as it was after so many commits. Raises NodeMissing."""
        stored = self._at(path, commits)[0]
        if stored is None:
            raise errors.NodeMissing(f"{path} does not exist")
        return stored

    def children(self, path: str, commits: int) -> list[str]:
        """Return the names below the node as they were after so many commits. Raises NodeMissing."""
        self.get(path, commits)
        return list(self._at(path, commits)[1])

    def _at(self, path: str, commits: int) -> tuple[Stored | None, tuple[str, ...]]:
        states = self._states.get(path, [])
        index = bisect_right(states, commits, key=lambda state: state[0]) - 1
        return (None, ()) if index < 0 else states[index][1:]
