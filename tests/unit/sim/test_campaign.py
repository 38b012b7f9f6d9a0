"""A campaign's record goes on after a kill, belongs to one commit, and says what was never reached."""

import json
from collections import Counter
from pathlib import Path

import pytest

from bookie.base.errors import BadInput
from bookie.sim import campaign, probes
from bookie.sim.campaign import ROTA, SeedShare
from bookie.sim.run import SeedOutcome


def outcome(seed: int, *, defect: str | None = None, reached: tuple[str, ...] = ()) -> SeedOutcome:
    return SeedOutcome(
        seed=seed,
        digest=f"digest of {seed}",
        defect=defect,
        virtual_s=30.0,
        steps=100,
        acknowledged=3,
        read=4,
        ledgers=1,
        mixed=0,
        broke=Counter(kill=2),
        violations=[],
        trace=[],
        reached=Counter(dict.fromkeys(reached, 5)),
        parts=[],
    )


def test_a_record_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    file, run = tmp_path / "record", list[int]()

    def once(seed: int) -> SeedOutcome:
        run.append(seed)
        return outcome(seed)

    assert campaign.record(file, "c1", range(3), once) == 3
    file.write_bytes(file.read_bytes() + b'{"seed": 3, "def')
    assert campaign.record(file, "c1", range(5), once) == 2

    assert run == [0, 1, 2, 3, 4]
    assert [json.loads(line).get("seed") for line in file.read_text().splitlines()] == [None, 0, 1, 2, 3, 4]
    with pytest.raises(BadInput, match="of commit c1"):
        campaign.record(file, "c2", range(5), once)


def test_a_kill_before_the_first_line_was_whole_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "record"
    file.write_bytes(b'{"com')

    assert campaign.record(file, "c1", [7], outcome) == 1
    assert campaign.report([file]).seeds == 1


def test_the_report_sums_up_files_and_names_defects_and_what_was_not_reached(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    rare, other, *rest = probes.NAMES
    campaign.record(files[0], "c1", [0, 1], lambda seed: outcome(seed, reached=(other, *rest)))
    campaign.record(files[1], "c1", [1, 4], lambda seed: outcome(seed, defect="S1: lost", reached=(other,)))

    found = campaign.report(files)
    told = found.text()

    assert (found.seeds, found.sums["steps"], found.broke["kill"]) == (3, 300, 6)
    assert (found.reached[other], found.not_reached) == (3, [rare])
    assert list(found.defects) == [4], "seed 1 counts once, as its first file has it"
    assert f"NOT REACHED  {rare}" in told
    assert f"again: python -m bookie.sim 0x4 --{campaign.flags_of(4)[0]} --trace" in told
    assert told.endswith("1 defects, 1 probes not reached")


def test_parts_share_the_seeds_and_each_has_every_aspect() -> None:
    parts = [SeedShare.parse(text).seeds(5, 200) for text in ("1/3", "2/3", "3/3")]

    assert sorted(seed for part in parts for seed in part) == list(range(5, 205))
    for part in parts:
        assert {campaign.flags_of(seed) for seed in part} == set(ROTA)


@pytest.mark.parametrize("text", ["0/2", "3/2", "two", "1"])
def test_a_part_is_one_of_several(text: str) -> None:
    with pytest.raises(ValueError, match="I/N"):
        SeedShare.parse(text)
