"""Probes: rare branches of the product that a campaign must have taken. A search that never gets there proves nothing.

The product knows nothing of them. A probe is a line of its log (by the text before its facts), an answer on a bookie's
wire (`Wiretap.refusals`), or a shape of a ledger's metadata. `Probes` counts them in one run; `python -m bookie.sim
--report FILE` says which of a campaign's were never reached.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from bookie.base.ids import LedgerId
from bookie.metadata.ledger import LedgerMetadata, LedgerState

# Name -> the beginning of a line that the product logs there.
LINES: dict[str, str] = {
    "phase one ran": "phase one done loss=",
    "phase two ended": "phase two done ledgers=",
    "phase two could not mend a ledger at once": "ledger not repaired yet ledger_id=",
    "a grant was accepted": "grant accepted grant_id=",
    "a grant was dropped": "grant dropped grant_id=",
    "a boot was overtaken by another process": "another process was quicker, looking again",
    "a boot waited for the end of another process": "waiting for the end of another process of this id",
    "a boot without a metadata store": "metadata store does not answer reason=",
    "a registration had to wait for an older session": "another session holds our record",
    "a node stopped by itself": "node stops bookie_id=",
    "a last flush did not finish": "the last flush did not finish",
    "a volume was full, and the bookie read-only": "read-only until there is space again",
    "writable again after a full volume": "writable again, there is space",
    "a start without space": "no space at start, read-only until there is",
    "the scrub found rot": "bad entry ledger_id=",
    "logs were compacted": "logs compacted logs=",
    "deleted ledgers were collected": "garbage collected ledgers=",
    "an ensemble change": "ensemble changed ledger_id=",
    "an ensemble change had to wait": "ensemble change delayed ledger_id=",
    "a writer ended without closing": "writer ended ledger_id=",
    "a client let a bookie alone for a while": "bookie quarantined bookie_id=",
    "a client saw a bookie's next process": "another process registered, connections to the earlier one end",
    "a recovery ended a ledger": "ledger recovered ledger_id=",
    "a replica was moved to another bookie": "replicas moved ledger_id=",
    "an evacuation was overtaken": "evacuation begins again: metadata or a new bookie changed",
    "a drain sealed its bookie": "drain seals: adds of recoveries are refused too",
    "a drain was cancelled": "drain cancelled bookie_id=",
    "another bookie forgot one that left": "forgot bookie_id=",
    "a fill looked at every ledger": "fill done ledgers=",
    "deferred sync: a bookie came back to its slot": "bookie is back ledger_id=",
    "a process began or ceased to be the auditor": "this process %s",
    "an auditor looked at every ledger": "audit begins reason=",
    "an auditor marked a ledger": "ledger marked, it lacks replicas ledger_id=",
    "a worker made a marked ledger whole": "ledger is whole ledger_id=",
    "a worker could not make a ledger whole at once": "ledger not whole yet ledger_id=",
    "auto-recovery ran in a bookie": "auto-recovery runs in this bookie name=",
    "phase one by a bound": "phase one done by a bound bound=",
    "every ledger in doubt was examined": "examining done epoch=",
    "surplus was found": "surplus found ledgers=",
    "surplus was given up": "surplus given up ledgers=",
}
# Name -> what a bookie answered: the kind of request, and the status.
ANSWERS: dict[str, str] = {
    "a writer's add was refused by a fence": "add EFENCED",
    "an add was refused by a read-only bookie": "add EREADONLY",
    "a recovery's read found the end": "fencing read ENOENTRY",
    "a bookie was asked for a ledger that it never saw": "read ENOLEDGER",
    "a recovery's read got no answer out of limbo": "fencing read EUNKNOWNLEDGERSTATE",
    "a reader got no answer out of limbo": "read EUNKNOWNLEDGERSTATE",
    "a reader was denied an entry": "read ENOENTRY",
}
# Name -> see `Probes.metadata_changed`.
ENDED_EMPTY = "a ledger ended without an entry"
MANY_SEGMENTS = "a ledger had four segments or more"
ENDED_ELSEWHERE = "a recovery ended a ledger on other bookies than it found"
MADE_ANEW = "a ledger was made anew under the id of a deleted one"
ENDED_ANEW = "a ledger that was made anew was recovered"
SHAPES = (ENDED_EMPTY, MANY_SEGMENTS, ENDED_ELSEWHERE, MADE_ANEW, ENDED_ANEW)

NAMES = (*LINES, *ANSWERS, *SHAPES)


class Probes(logging.Handler):
    """Counts what one run reached. Nothing here may change the run."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.reached: Counter[str] = Counter()
        self._of_line: dict[str, tuple[str, ...]] = {}  # by the whole text of a line: few, and each comes often
        self._metadata: dict[LedgerId, LedgerMetadata] = {}
        self._deleted: set[LedgerId] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = str(record.msg)
        names = self._of_line.get(text)
        if names is None:
            names = self._of_line[text] = tuple(name for name, begin in LINES.items() if text.startswith(begin))
        for name in names:
            self.reached[name] += 1

    def answered(self, refusals: Counter[str]) -> None:
        """Take the refusals of a whole run."""
        for name, answer in ANSWERS.items():
            if refusals[answer]:
                self.reached[name] += refusals[answer]

    def metadata_changed(self, ledger_id: LedgerId, metadata: LedgerMetadata | None) -> None:
        before = self._metadata.pop(ledger_id, None)
        if metadata is None:
            self._deleted.add(ledger_id)
            return
        self._metadata[ledger_id] = metadata
        if before is None and ledger_id in self._deleted:
            self.reached[MADE_ANEW] += 1
        if len(metadata.segments) >= 4:
            self.reached[MANY_SEGMENTS] += 1
        if before is None or metadata.state is not LedgerState.CLOSED or before.state is LedgerState.CLOSED:
            return
        if metadata.last_entry < 0:
            self.reached[ENDED_EMPTY] += 1
        if before.state is LedgerState.IN_RECOVERY and ledger_id in self._deleted:
            self.reached[ENDED_ANEW] += 1
        if before.state is LedgerState.IN_RECOVERY and metadata.segments != before.segments:
            self.reached[ENDED_ELSEWHERE] += 1

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear what the product logs, also where nobody else wants to."""
        logger, silenced = logging.getLogger("bookie"), logging.root.manager.disable
        level, propagates = logger.level, logger.propagate
        logging.disable(logging.NOTSET)
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        logger.propagate = propagates and not silenced
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)
            logger.propagate = propagates
            logging.disable(silenced)
