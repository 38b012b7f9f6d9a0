"""What the last round of each job came to that a node repeats by itself. Pure.

An error that ends a round and not the node is logged, and the next round tries again. Where each one ends so nobody
reads the log, and the job's other figures stand as the last good round left them: this is what says so.
"""


class Rounds:
    """Written by the jobs of one node, read by its metrics."""

    def __init__(self) -> None:
        self._given_up: dict[str, str] = {}

    def came_to_end(self, job: str) -> None:
        """Note that a round of `job` did what it is for."""
        self._given_up[job] = ""

    def given_up(self, job: str, error: Exception) -> bool:
        """Note that `error` ended a round of `job`; another one follows. Return True when the one before had none."""
        is_news = not self._given_up.get(job)
        self._given_up[job] = str(error) or type(error).__name__
        return is_news

    def last(self) -> dict[str, str]:
        """Return for each job that has had a round why the last one was given up; "" when it came to its end."""
        return dict(sorted(self._given_up.items()))
