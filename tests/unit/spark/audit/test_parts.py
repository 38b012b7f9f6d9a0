"""What an audit writes down: plans, figures, parts; and that a killed audit goes on where it was."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base.errors import BadInput, StorageFailed
from bookie.base.ids import BookieId, LedgerId
from pyspark_bookkeeper.audit import job, plan, tally
from pyspark_bookkeeper.audit.compare import MISSING, UNREACHABLE, Comparison, Replica, ReplicaFinding
from pyspark_bookkeeper.audit.inspector import Rules, UnitResult
from pyspark_bookkeeper.audit.parts import Folder, write_whole
from pyspark_bookkeeper.audit.plan import AuditPlan, Unit

figures = st.dictionaries(
    st.sampled_from([("entries",), ("ledgers", "open"), ("bookies", "b1", "missing"), ("zones", "", "2")]),
    st.integers(1, 9),
).map(Counter)


def planned(ledgers: int = 10, *, unit_ledgers: int = 2, wave_units: int = 2) -> AuditPlan:
    return plan.make(
        uri="zk+hierarchical://zk:2181/ledgers",
        started_ms=1,
        options={"--ask": "all", "--read": "sample"},
        rules=Rules(grace_ms=5),
        zones={BookieId("b1"): "x"},
        known=[BookieId("b1"), BookieId("b2")],
        ledger_ids=[LedgerId(2 * number) for number in range(ledgers)],
        unit_ledgers=unit_ledgers,
        wave_units=wave_units,
    )


def found(unit: Unit) -> UnitResult:
    """A finding for each ledger of a unit."""
    ids = list(plan.parse_ids(unit[1]))
    findings = [ReplicaFinding(ledger_id, "b1", MISSING, 0, 3, 2) for ledger_id in ids]
    return UnitResult(findings, Counter({("entries",): len(ids), ("copies", MISSING): 2 * len(ids)}))


def silent(text: str) -> None:
    pass


@settings(deadline=None)
@given(st.sets(st.integers(0, 60), min_size=1))
def test_ledger_ids_survive_being_written_as_ranges(ids: set[int]) -> None:
    assert list(plan.parse_ids(plan.format_ids(map(LedgerId, sorted(ids))))) == sorted(ids)


def test_every_ledger_is_in_one_unit_and_every_unit_in_one_wave() -> None:
    waves = planned(11, unit_ledgers=3, wave_units=2).waves()

    assert [[text for _, text in wave] for wave in waves] == [["0,2,4", "6,8,10"], ["12,14,16", "18,20"]]


def test_a_plan_is_read_as_it_was_written() -> None:
    assert plan.load(plan.dump(planned())) == planned()


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1}', '{"format": 2, "uri": "x"}', "[1]"])
def test_what_is_no_plan_is_refused_with_the_next_thing_to_try(text: str) -> None:
    with pytest.raises(BadInput, match="another folder"):
        plan.load(text)


def test_a_plan_names_the_options_that_differ_from_those_it_was_made_with() -> None:
    assert plan.difference(planned(), {"--ask": "all", "--read": "sample"}) == ""
    assert plan.difference(planned(), {"--ask": "named", "--read": "sample"}) == "--ask all (now named)"


@settings(deadline=None)
@given(st.lists(figures, max_size=6), st.randoms())
def test_figures_add_up_in_any_order_and_through_json(parts: list[tally.Figures], random: Random) -> None:
    total = tally.total(parts)
    random.shuffle(parts)

    assert tally.total(tally.flat(tally.nested(part)) for part in parts) == total


def test_of_many_reasons_the_most_frequent_stay() -> None:
    many = [tally.reason(f"reason {'x' * number}") for number in range(2 * tally.REASONS_MAX)]
    often = [tally.reason("ledger 7 is odd"), tally.reason("ledger 8 is odd")]

    total = tally.total(many + often)

    assert len(total) == tally.REASONS_MAX
    assert total["reasons", "ledger ... is odd"] == 2


def test_findings_and_figures_come_back_from_their_parts(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "audit")
    folder.begin(planned())
    odd = ReplicaFinding(1, "b2", UNREACHABLE, 4, 9, 3, "bookie b2 cannot be reached")

    folder.write_wave(0, [found((0, "0,2")), UnitResult([odd], Counter({("entries",): 6}))])
    folder.write_wave(1, [UnitResult()])

    findings, total = folder.read(2)
    assert findings == [ReplicaFinding(0, "b1", MISSING, 0, 3, 2), odd, ReplicaFinding(2, "b1", MISSING, 0, 3, 2)]
    assert total == Counter({("entries",): 8, ("copies", MISSING): 4})
    assert pq.read_table(folder.findings).num_rows == 3


def test_a_part_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "part"
    write_whole(target, b"old")

    with pytest.raises(TypeError):
        write_whole(target, "not bytes")  # type: ignore[arg-type]

    assert target.read_bytes() == b"old"


class Killed(Exception):
    pass


@pytest.mark.parametrize("survived", range(4))
def test_a_killed_audit_repeats_nothing_that_was_committed_and_finds_the_same(tmp_path: Path, survived: int) -> None:
    folder, whole = Folder(tmp_path / "killed"), Folder(tmp_path / "whole")
    audit = planned(12)
    done: list[int] = []

    def run_wave(units: Sequence[Unit]) -> list[UnitResult]:
        done.extend(number for number, _ in units)
        return [found(unit) for unit in units]

    def dies(units: Sequence[Unit]) -> list[UnitResult]:
        if len(done) >= 2 * survived:
            raise Killed
        return run_wave(units)

    whole.begin(audit)
    job.run(audit, whole, lambda units: [found(unit) for unit in units], silent)
    folder.begin(audit)
    if survived < len(audit.waves()):
        with pytest.raises(Killed):
            job.run(audit, folder, dies, silent)
    again = folder.begun()
    assert again is not None
    job.run(again, folder, run_wave, silent)

    assert sorted(done) == list(range(6))
    assert folder.read(3) == whole.read(3)


def test_an_audit_begun_anew_has_nothing_of_the_old_one(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.begin(planned())
    folder.write_wave(0, [found((0, "0,2"))])
    (tmp_path / "mine.txt").write_text("not of the audit")

    folder.forget()

    assert folder.begun() is None
    assert not folder.has_wave(0)
    assert (tmp_path / "mine.txt").exists()


def test_a_plan_or_a_part_that_is_none_is_told_with_the_next_thing_to_try(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.plan.write_bytes(b"\xff")
    with pytest.raises(BadInput, match=r"the plan .*plan.json cannot be read .*: give another --output"):
        folder.begun()

    folder.begin(planned(2))
    for content in (b"", b"no Parquet"):
        (folder.findings / "wave-00000.parquet").write_bytes(content)
        with pytest.raises(
            BadInput, match=r"wave-00000.parquet is no part of an audit .*: remove it and give the same"
        ):
            folder.read(1)
    pq.write_table(pa.table({"x": [1]}), folder.findings / "wave-00000.parquet")
    with pytest.raises(BadInput, match="is no part of an audit"):
        folder.read(1)


def test_a_folder_that_takes_no_more_files_is_told_with_the_next_thing_to_try(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.begin(planned(2))
    (folder.findings / ".wave-00000.parquet.new").mkdir()  # as good as a full disk, and it stops root, too

    with pytest.raises(StorageFailed, match="Is a directory; make room there"):
        folder.write_wave(0, [UnitResult()])
    assert not folder.has_wave(0)

    folder.plan.unlink()
    folder.plan.mkdir()
    with pytest.raises(StorageFailed, match="cannot write to"):
        folder.forget()


@pytest.mark.parametrize("units", [1, 2, 3, 5])
def test_the_last_wave_is_one_however_few_units_are_left_for_it(units: int) -> None:
    waves = planned(2 * units, unit_ledgers=2, wave_units=2).waves()

    assert [number for wave in waves for number, _ in wave] == list(range(units))


def test_a_plan_of_an_older_release_is_refused_though_it_could_be_read() -> None:
    """Its units or rules may mean something else; that of a newer one too."""
    for version in (plan.FORMAT - 1, plan.FORMAT + 1):
        text = plan.dump(planned()).replace(f'"format": {plan.FORMAT}', f'"format": {version}')
        with pytest.raises(BadInput, match="written by another version"):
            plan.load(text)


def test_an_option_that_is_not_given_again_is_a_difference() -> None:
    assert plan.difference(planned(), {"--ask": "all"}) == "--read sample (now None)"


def test_an_audit_that_is_forgotten_in_part_is_none() -> None:
    """CRASH: its plan goes first. With a plan, and without some of its waves, it would go on with the others of them,
    made for another one."""
    gone: list[str] = []

    class Watched(Folder):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.plan, self.summary, self.report = (Fake(each.name) for each in (self.plan, self.summary, self.report))  # type: ignore[assignment]
            self.findings = Fake("findings")  # type: ignore[assignment]

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def unlink(self, *, missing_ok: bool) -> None:
            assert missing_ok
            gone.append(self.name)

        def glob(self, pattern: str) -> list["Fake"]:
            return [Fake(pattern)]

    Watched(Path("audit")).forget()

    assert gone == ["plan.json", "summary.json", "report.html", "wave-*.parquet"]


def test_what_is_written_whole_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append((tmp_path / "part").exists()))

    write_whole(tmp_path / "part", b"new")

    assert synced == [False]
    assert (tmp_path / "part").read_bytes() == b"new"


def compared(**replicas: Replica) -> Comparison:
    """Ten entries on so many bookies; `reasons` for whatever may need one."""
    reasons = {(BookieId(name), kind): f"{name} {kind}" for name in replicas for kind in ("corrupt", "unreachable")}
    return Comparison(
        entries=10,
        replicas={BookieId(name): one for name, one in replicas.items()},
        reasons=reasons,
        replicas_min=1,
        survivors={"x": 2, "y": 0},
        lost=3,
    )


def of(**kinds: int) -> Replica:
    replica = Replica(expected=10, read=4)
    for kind, count in kinds.items():
        getattr(replica, kind).add((1 << count) - 1, (1 << 10) - 1, 0)
    return replica


def test_the_figures_of_a_ledger_are_sums_over_its_bookies_with_every_reason() -> None:
    told = tally.of(
        compared(a=of(missing=2), b=of(missing=1, corrupt=1), c=of(unreachable=5)), tally.CLOSED, write_quorum=3
    )

    assert told["copies", "expected"] == 30
    assert told["copies", "read"] == 12
    assert (told["copies", "missing"], told["bookies", "a", "missing"], told["bookies", "b", "missing"]) == (3, 2, 1)
    assert told["ledgers", "closed"] == told["ledgers", "missing"] == told["ledgers", "corrupt"] == 1
    assert ("ledgers", "unexpected") not in told
    assert {key[1] for key in told if key[0] == "reasons"} == {"b corrupt", "c unreachable"}
    assert told["lost",] == 3


def test_replicas_and_zones_are_told_as_they_are_left() -> None:
    told = tally.of(compared(a=of()), tally.CLOSED, write_quorum=3)

    assert told["replicas", "3", "1"] == 1
    assert (told["zones", "x", "2"], told["zones", "y", "0"]) == (1, 1)


def test_the_sum_is_over_every_wave(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.begin(planned())
    for wave in range(3):
        folder.write_wave(wave, [UnitResult(figures=Counter({("entries",): 10**wave}))])

    assert folder.read(3)[1] == Counter({("entries",): 111})
