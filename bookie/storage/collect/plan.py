"""Which entry logs may go: those that hold no byte of a ledger that is still here. Pure."""

from collections.abc import Callable, Iterable

from bookie.base.ids import LedgerId


def droppable(
    logs: Iterable[int],
    *,
    current: int,
    ledgers_in: Callable[[int], Iterable[LedgerId]],
    is_live: Callable[[LedgerId], bool],
) -> list[int]:
    """Ids of logs to drop, ascending. `current` is the newest log ever begun; it and later ones are never dropped.

    A log without any recorded ledger holds only what a crash left before its checkpoint was durable: nothing points
    into it. Asked only between checkpoints, when the records of every older log are complete.
    """
    return [
        log_id
        for log_id in sorted(logs)
        if log_id < current and not any(is_live(ledger_id) for ledger_id in ledgers_in(log_id))
    ]
