"""The story, once for every fleet: write, lose a bookie's volumes, watch the fleet heal, prove that nothing is lost."""

from __future__ import annotations

from typing import Any

import narrate
import proof
from oracle import Oracle, OracleFailed
from pyspark_bookkeeper.audit import summary
from stage import Audit, DemoFailed, Fleet, Loss, Observation, Outcome
from timeline import Progress, Sample, Timeline
from waiting import wait_for

WARM_UP_ENTRIES = 400  # acknowledged before the accident, so that there is something to lose
KILLED_MIN = 3  # writers: each leaves a ledger that only recovery can close
AFTERWARDS_ENTRIES = 40  # of the steady writer, after the fleet has healed
WARM_UP_TIMEOUT_S = 120.0
HEAL_TIMEOUT_S = 900.0
AUDIT_TIMEOUT_S = 300.0
BEFORE, AFTER = "before", "after"
PROGRESS_EVERY_S = 2.0


class Story:
    def __init__(self, fleet: Fleet, timeline: Timeline, *, look_at: str, with_audits: bool = True) -> None:
        """`with_audits`: before the heal has ended and after it; each takes its time, and a JVM."""
        self._fleet = fleet
        self._with_audits = with_audits
        self._timeline = timeline
        self._look_at = look_at
        self._oracle: Oracle | None = None
        self.history: list[Observation] = []
        self.outcome = Outcome(fleet.title, not_shown=fleet.not_shown)

    def run(self) -> Outcome:
        """Tell it all. Raises DemoFailed when a step cannot be done; claims that do not hold are in the outcome."""
        self._fleet.start(self._timeline)
        return self.go_on()

    def go_on(self) -> Outcome:
        """Tell it on a fleet that is up: the part that may be told again and again."""
        try:
            oracle = self._start_writers()
            if self._with_audits:
                self._fleet.prepare_audit()
            bookie_id, open_ledgers, before = self._choose(oracle)
            loss = self._lose(bookie_id)
            audit = self._fleet.begin_audit(BEFORE) if self._with_audits else None
            at_once = self._heal(oracle, bookie_id, open_ledgers, audit)
            self._prove(oracle, loss, open_ledgers, before, at_once)
        except OracleFailed as error:
            raise DemoFailed(str(error), self._look_at) from None
        finally:
            if self._oracle is not None:
                self._oracle.close()
        return self.outcome

    def _start_writers(self) -> Oracle:
        oracle = self._oracle = self._fleet.start_workload()
        oracle.on_sample = self._sampled
        oracle.start()

        def is_warm() -> bool | None:
            if oracle.has_ended:
                raise DemoFailed("the writers ended by themselves", self._look_at)
            told = oracle.latest
            enough = oracle.acknowledged >= WARM_UP_ENTRIES and told["closed"] > 0 and told["killed"] >= KILLED_MIN
            return True if enough else None

        wait_for(
            "the first ledgers: some closed, some left open, some left by a killed writer",
            is_warm,
            timeout_s=WARM_UP_TIMEOUT_S,
            look_at=self._look_at,
            detail=lambda: f"{oracle.acknowledged} entries acknowledged",
        )
        told = oracle.latest
        self._timeline.tell(
            "step",
            f"writers: {told['acknowledged']} entries acknowledged in {told['created']} ledgers "
            f"({told['closed']} closed, {told['killed']} writers killed)",
        )
        return oracle

    def _choose(self, oracle: Oracle) -> tuple[str, list[int], dict[str, Any]]:
        """Choose the bookie that holds the most open ledgers: the one whose loss is the hardest."""
        named: dict[str, dict[str, Any]] = oracle.ask("survey", needs_log=False)["bookies"]
        bookie_id = max(self._fleet.bookie_ids(), key=lambda name: len(named.get(name, {"open": []})["open"]))
        facts = named[bookie_id]
        text = f"{bookie_id} is named by {facts['ledgers']} ledgers; {len(facts['open'])} of them are open on it"
        self._timeline.tell("step", text)
        return bookie_id, facts["open"], dict(oracle.latest)

    def _lose(self, bookie_id: str) -> Loss:
        loss = self.outcome.loss = self._fleet.destroy(bookie_id)
        volumes = ", ".join(f"{volume.name} ({volume.role})" for volume in loss.volumes)
        self._timeline.tell("loss", f"{bookie_id} killed, its volumes destroyed: {volumes}; writes go on")
        return loss

    def _heal(self, oracle: Oracle, bookie_id: str, open_ledgers: list[int], audit: Audit | None) -> dict[str, Any]:
        """Watch until the bookie is whole again, tell each change, and let the fleet decide once it knows what is lost.

        Returns how it answered writers of `open_ledgers` as soon as it served.
        """
        lost_s = self._timeline.now_s()
        healed_s = 0.0
        last, told_s = Observation(), 0.0
        at_once: dict[str, Any] = {}

        def look() -> Observation | None:
            nonlocal last, told_s, at_once, healed_s
            knows = audit is None or self._hear(BEFORE, audit)
            seen = self._fleet.watch(bookie_id)
            if seen.data_port_open and not at_once:
                at_once = self._probe(oracle, bookie_id, open_ledgers)
            for kind, text in narrate.changes(last, seen):
                self._timeline.tell(kind, text)
                told_s = self._timeline.now_s()
            if seen != last:
                self.history.append(seen)
            last = seen
            if seen.ledgers_pending >= 0:
                now = Progress(self._timeline.now_s(), seen.ledgers_pending, max(seen.bytes_copied, 0))
                self._timeline.progress.append(now)
                if seen.phase == "two" and now.at_s - told_s > PROGRESS_EVERY_S:
                    self._timeline.tell("progress", narrate.progress(seen))
                    told_s = now.at_s
            if knows:
                self._fleet.decide(bookie_id, seen)
            if not (seen.done and seen.data_port_open):
                return None
            healed_s = healed_s or self._timeline.now_s()
            return seen if knows else None

        self.outcome.last = wait_for(
            f"{bookie_id} to be whole again",
            look,
            timeout_s=HEAL_TIMEOUT_S,
            look_at=self._look_at,
            detail=lambda: " ".join(part for part in (last.state, last.reason) if part),
            poll_s=self._fleet.poll_s,
        )
        self.outcome.healed_s = healed_s - lost_s
        return at_once

    def _probe(self, oracle: Oracle, bookie_id: str, ledgers: list[int]) -> dict[str, Any]:
        """Ask the bookie on the wire to take an entry of each ledger as a writer would."""
        named = ",".join(map(str, ledgers))
        return oracle.ask("fenced", "--bookie", bookie_id, "--ledgers", named, needs_log=False)

    def _prove(
        self, oracle: Oracle, loss: Loss, open_ledgers: list[int], before: dict[str, Any], at_once: dict[str, Any]
    ) -> None:
        after = self._write_on(oracle, before)
        self._timeline.tell("step", "writers stop; every acknowledged entry is read back")
        oracle.stop_writing()
        words = ["--replicas-of", loss.bookie_id, "--before-ms", str(loss.wall_ms), "--json"]
        verdict = self.outcome.verdict = oracle.ask("verify", *words)
        at_last = self._probe(oracle, loss.bookie_id, open_ledgers)
        audits = self._audit_again() if self._with_audits else {}
        self.outcome.proofs = [
            proof.nothing_lost(verdict),
            proof.copies_are_back(loss.bookie_id, verdict),
            proof.protected_before_cookie(self.history, at_once, at_last),
            proof.writer_lived(before, after),
            *proof.audits(loss.bookie_id, audits),
            *self._fleet.final_proofs(loss.bookie_id, loss),
        ]
        for one in self.outcome.proofs:
            self._timeline.tell("proof", f"{'holds' if one.holds else 'DOES NOT HOLD'}: {one.claim} ({one.seen})")

    def _audit_again(self) -> dict[str, dict[str, Any]]:
        """Audit the healed fleet; return both audits."""
        audit = self._fleet.begin_audit(AFTER)
        wait_for(
            "the audit of the healed fleet",
            lambda: self._hear(AFTER, audit) or None,
            timeout_s=AUDIT_TIMEOUT_S,
            look_at=self._look_at,
        )
        return self.outcome.audits

    def _hear(self, name: str, audit: Audit) -> bool:
        """Take the audit's answer, once it is there, and tell it; return whether it is."""
        if name not in self.outcome.audits:
            answer = audit.answer()
            if answer is None:
                return False
            self.outcome.audits[name] = answer
            self._timeline.tell("audit", f"the audit {name} the heal: {summary.sentence(answer)}")
        return True

    def _write_on(self, oracle: Oracle, before: dict[str, Any]) -> dict[str, Any]:
        """Wait until the steady writer has written some more after the heal; return the sample that shows it."""
        healed = dict(oracle.latest)

        def has_written() -> dict[str, Any] | None:
            if oracle.has_ended:
                raise DemoFailed("the writers ended by themselves", self._look_at)
            now = oracle.latest
            moved = now["steady_ledger"] != healed["steady_ledger"]
            more = now["steady_acknowledged"] - healed["steady_acknowledged"]
            return dict(now) if moved or more >= AFTERWARDS_ENTRIES else None

        return wait_for("the steady writer's next entries", has_written, timeout_s=60.0, look_at=self._look_at)

    def _sampled(self, sample: dict[str, Any]) -> None:
        seen = Sample(self._timeline.now_s(), float(sample["rate_per_s"]), int(sample["acknowledged"]))
        self._timeline.samples.append(seen)
