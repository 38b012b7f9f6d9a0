"""The options of auto-recovery: how long it waits, how fast it works, how often it looks."""

from dataclasses import dataclass, fields

from bookie.base import errors

# All others are 1 at least.
MAY_BE_ZERO = (
    "loss_delay_ms",
    "check_interval_ms",
    "probe_interval_ms",
    "return_grace_ms",
    "open_ledger_grace_ms",
    "bytes_per_s",
)


@dataclass(frozen=True, slots=True)
class AutoRecoveryOptions:
    """Raises BadInput for a value that is out of range, all of them together."""

    # Between the silence of a bookie and its loss, where the cluster has no value of its own (`autorecovery delay`).
    # Java's default is 0; a minute lets a restart pass without moving anything.
    loss_delay_ms: int = 60_000
    # Between two looks at every ledger's record. Java's is a day; one look is one read a ledger.
    audit_interval_ms: int = 3_600_000
    # Between two comparisons of every bookie's lists with the metadata; 0: none. Java's is a week.
    check_interval_ms: int = 600_000
    # Between two comparisons that also read: the ends of what each bookie should have of each segment, since a list
    # comes from an index, whatever became of the bytes. Java's check is this one, and weekly. 0: none.
    probe_interval_ms: int = 604_800_000
    # Ledgers compared a second: a list costs a bookie a walk of its index.
    check_ledgers_per_s: int = 200
    # A bookie that came back fills its own holes first (IntegrityOptions.fill_after_boot), then it is compared.
    return_grace_ms: int = 60_000
    # A writer whose ledger names a lost bookie and that shows no sign of life for so long is fenced off; Java's is the
    # same (openLedgerRereplicationGracePeriod).
    open_ledger_grace_ms: int = 30_000
    # Ledgers worked on at once, and entries of each.
    ledgers_at_once: int = 8
    entries_at_once: int = 32
    # Bytes a second that all of them together copy to one bookie; 0: no limit. By target: there a copy costs most (it
    # is written twice and forced), sources share the reads, and a bookie that is slow keeps no other one waiting.
    bytes_per_s: int = 0
    # Between two attempts at one blocked ledger: the first pause, doubled up to the last.
    retry_ms: int = 5_000
    retry_ms_max: int = 900_000
    # Between two looks at the queue and at the switch, when nothing tells of a change.
    poll_ms: int = 5_000

    def __post_init__(self) -> None:
        wrong = [
            f"{each.name} is {getattr(self, each.name)}"
            for each in fields(self)
            if getattr(self, each.name) < (0 if each.name in MAY_BE_ZERO else 1)
        ]
        if wrong:
            raise errors.BadInput(f"auto-recovery: too small: {', '.join(wrong)}")
