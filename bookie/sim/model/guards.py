"""The guards: each a rule that the model can take away, with the page that states it."""

FENCE_DURABLE = "fence-durable"
MARKS_BEFORE_SERVING = "marks-before-serving"
MARKS_DURABLE = "marks-durable"
FENCE_OF_PHASE_ONE = "fence-of-phase-one"
LIMBO_IS_UNKNOWN = "limbo-is-unknown"
LIMBO_IN_RECOVERY = "limbo-in-recovery"
LIMBO_CLOSED = "limbo-closed"
SYNC_BEFORE_READ = "sync-before-read"
COPY_BEFORE_CLEAR = "copy-before-clear"
CLEAR_SEALED = "clear-sealed"
MARKER = "marker"
COLLECTOR_KEEPS_FENCES = "collector-keeps-fences"
CLAIM = "claim"
WRITER_ASKS = "writer-asks"
RECOVERY_ASKS = "recovery-asks"
VOID_ACKS = "void-acks"
CHANGE_BY_CAS = "change-by-cas"
CLOSE_BY_CAS = "close-by-cas"
FENCE_COVERAGE = "fence-coverage"
READS_FENCE = "reads-fence"
NEGATIVE_QUORUM = "negative-quorum"
WRITE_BACK = "write-back"
COPY_BEFORE_NAMING = "copy-before-naming"
REPLICATOR_BY_CAS = "replicator-by-cas"
REPLICATOR_SEES_LIVES = "replicator-sees-lives"
# Of decision 21, of which the touches are not built.
TOUCH = "touch"
TOUCH_PER_GENERATION = "touch-per-generation"
TOUCH_RECOVERY = "touch-recovery"
TOUCH_OUTLIVES_FAILURE = "touch-outlives-failure"
TOUCH_OUTLIVES_REPLAY = "touch-outlives-replay"
TOUCH_MARKER = "touch-marker"
BOUND_AFTER_CLAIM = "bound-after-claim"
DOUBT_DURABLE = "doubt-durable"
EXAMINE_AFTER_CLAIM = "examine-after-claim"
EXAMINE_KEEPS_FENCE = "examine-keeps-fence"
NOT_NAMED_STAYS_FENCED = "not-named-stays-fenced"
OPEN_NAMED_IS_LIMBO = "open-named-is-limbo"
COLLECTOR_LEAVES_DOUBT = "collector-leaves-doubt"

# Guard -> where the rule stands, and what it says.
GUARDS: dict[str, tuple[str, str]] = {
    FENCE_DURABLE: ("R16", "a fence is durable before it is answered"),
    MARKS_BEFORE_SERVING: ("S17", "nothing is served before the marks of phase one"),
    MARKS_DURABLE: ("R6", "the marks are durable before the cookie changes"),
    FENCE_OF_PHASE_ONE: ("R9", "closed ledgers, and those in recovery, are fenced by phase one"),
    LIMBO_IS_UNKNOWN: ("R15", "what a bookie in limbo has not is unknown, never absent"),
    LIMBO_IN_RECOVERY: ("S8", "a ledger in recovery is in limbo also where it does not name the bookie"),
    LIMBO_CLOSED: ("S8", "a closed ledger that names the bookie is in limbo too"),
    SYNC_BEFORE_READ: ("R7", "phase one reads metadata that is not older than the loss"),
    COPY_BEFORE_CLEAR: ("R20", "phase two fetches what is missing before it clears limbo"),
    CLEAR_SEALED: ("S9", "limbo ends only after the end of the ledger, or of the segment, was decided"),
    MARKER: ("R5", "an unclean stop is noticed"),
    COLLECTOR_KEEPS_FENCES: ("R19", "garbage collection keeps every fence whose ledger exists"),
    CLAIM: ("R6", "a boot claims its identity before it makes its marks"),
    WRITER_ASKS: ("R4", "after an ensemble change a writer gives no entry to a process that was replaced"),
    RECOVERY_ASKS: ("R3", "a recovery asks no process that was replaced before it began"),
    VOID_ACKS: ("R4", "acknowledgements of a replaced bookie do not count"),
    CHANGE_BY_CAS: ("S14", "an ensemble change is a compare-and-set"),
    CLOSE_BY_CAS: ("S6", "a writer's close is a compare-and-set"),
    FENCE_COVERAGE: ("S15", "each ack quorum has a fenced bookie before a recovery reads"),
    READS_FENCE: ("S13", "a recovery's reads fence"),
    NEGATIVE_QUORUM: ("R2", "a recovery ends at WQ-AQ+1 denials"),
    WRITE_BACK: ("R3", "what a recovery found is written back to AQ bookies before it counts"),
    COPY_BEFORE_NAMING: ("M34", "a re-replicator names a bookie after its copies are there"),
    REPLICATOR_BY_CAS: ("M32", "a re-replicator publishes by compare-and-set"),
    REPLICATOR_SEES_LIVES: ("S8", "a re-replicator names no bookie that began a new life since"),
}

# The same for the rules on paper; the numbers are those of decision 21.
ON_PAPER: dict[str, tuple[str, str]] = {
    BOUND_AFTER_CLAIM: ("1", "the bound is read after the claim"),
    DOUBT_DURABLE: ("1", "the doubt is durable before the cookie changes"),
    EXAMINE_AFTER_CLAIM: ("3", "a ledger is examined by a record of after the claim"),
    EXAMINE_KEEPS_FENCE: ("3", "what was examined does not overwrite a fence that came meanwhile"),
    NOT_NAMED_STAYS_FENCED: ("3", "a closed ledger that does not name the bookie stays fenced"),
    OPEN_NAMED_IS_LIMBO: ("3", "an open ledger that names the bookie is in limbo"),
    COLLECTOR_LEAVES_DOUBT: ("2", "garbage collection leaves ledgers in doubt alone"),
    TOUCH: ("4", "a touch precedes the first answer from memory"),
    TOUCH_PER_GENERATION: ("4", "each checkpoint has touches of its own"),
    TOUCH_RECOVERY: ("4", "a recovery's adds are durable, or touch as well"),
    TOUCH_OUTLIVES_FAILURE: ("4", "a checkpoint that fails keeps its touches"),
    TOUCH_OUTLIVES_REPLAY: ("4", "limbo is durable before the touch goes"),
    TOUCH_MARKER: ("4", "touches are believed only of a life whose marker says that it made them"),
}
