"""`python -m bookie.sim`: what it prints, and its exit code."""

import os
import re
from pathlib import Path

import pytest

from bookie.sim.__main__ import main
from bookie.sim.run import run_seed


def test_a_clean_seed_prints_one_line_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["5", "--accidents", "--faults-s", "3"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("seed 0x5 ok")


def test_a_trace_has_one_lane_per_node_and_the_log_lines_of_the_product(capsys: pytest.CaptureFixture[str]) -> None:
    main(["0x5", "--accidents", "--faults-s", "3", "--trace"])

    out = capsys.readouterr().out
    assert "lanes: admin bookie-0 bookie-1 bookie-2 director" in out.splitlines()[0]
    assert "serving bookie_id=bookie-0" in out
    assert "▲" in out


@pytest.mark.slow
def test_a_defect_is_named_with_the_command_that_shows_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["0", "--accidents", "--no-limbo", "--seeds", "4"])

    out = capsys.readouterr().out
    assert code == 1
    assert "DEFECT" in out
    assert " --accidents --no-limbo --trace" in out
    assert out.splitlines()[-1].startswith("4 seeds, ")


def test_a_campaign_is_recorded_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counting probes leaves the run what it was: the digest is that of the same seed alone."""
    file = tmp_path / "campaign"
    words = ["1", "--seeds", "2", "--faults-s", "3"]
    assert main([*words, "--campaign", str(file), "--commit", "c1"]) == 0
    assert main([*words, "--campaign", str(file), "--commit", "c1"]) == 0
    assert [line[:11] for line in capsys.readouterr().out.splitlines()] == ["2 seeds run", "0 seeds run"]
    main(["1", "--accidents", "--faults-s", "3"])
    digest = capsys.readouterr().out.split("digest=")[1].strip()

    code = main(["--report", str(file)])

    told = capsys.readouterr().out
    assert code == 1, "so few seeds do not reach everything"
    assert told.startswith("2 seeds of c1: ")
    assert "in 2 seeds  phase one ran" in told
    assert f'"digest": "{digest}"' in file.read_text()


@pytest.mark.parametrize(
    "data", [b"", b"\x00\xff\n", b"[]\n", b'{"commit": "c1"}\n{"seed": 1}\n', b'{"commit": "c1"', None]
)
def test_a_file_that_no_campaign_wrote_is_refused(
    data: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "record"
    if data is None:
        file.mkdir()
    else:
        file.write_bytes(data)

    for words in (["--report", str(file)], ["--play", str(file)]):
        assert main(words) == 2
        assert str(file) in capsys.readouterr().err
    assert main(["--report", str(tmp_path / "nothing")]) == 2
    if data is None:
        assert main(["1", "--campaign", str(file), "--commit", "c1"]) == 2


@pytest.mark.parametrize("words", [["--play"], ["--report"], ["1", "--campaign"], ["1", "--save"]])
def test_a_pipe_or_a_folder_in_place_of_a_file_is_told_before_anything_is_run(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")

    for place in (tmp_path, tmp_path / "pipe"):
        assert main([*words, str(place)]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith(f"{place} ")
        assert told.err.count("\n") == 1


@pytest.mark.parametrize("count", ["0", "-1"])
def test_no_seeds_prove_nothing(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["1", "--seeds", count])

    assert ended.value.code == 2
    assert "must be 1 at least" in capsys.readouterr().err


@pytest.mark.slow
def test_a_part_that_is_left_out_leaves_the_others_what_they_were() -> None:
    """Links are held in any case, whatever else happens; so each of these acts but one is there again."""

    def holds(parts: list[str]) -> list[str]:
        return [part for part in parts if part.startswith("hold-")]

    runs = (run_seed(seed, accidents=True, faults_s=10) for seed in range(20))
    whole = next(run for run in runs if len(holds(run.parts)) > 2)
    first, *rest = holds(whole.parts)

    other = run_seed(whole.seed, accidents=True, faults_s=10, without=frozenset({first}))

    assert holds(other.parts) == rest
    same = run_seed(whole.seed, accidents=True, faults_s=10, without=frozenset({"nothing of the kind"}))
    assert same.digest == whole.digest != other.digest


@pytest.mark.slow
def test_a_failing_seed_is_made_small_and_its_story_is_told_and_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scenario"
    words = ["--accidents", "--no-limbo"]
    failing = next(seed for seed in range(20) if main([str(seed), *words, "--faults-s", "15"]))
    capsys.readouterr()

    assert main([str(failing), *words, "--faults-s", "15", "--shrink", "--runs", "60", "--save", str(file)]) == 1
    told = capsys.readouterr().out
    left, begun = re.search(r"left of (\d+) parts: (.+) \(", told).group(2, 1)  # type: ignore[union-attr]
    assert len(left.split()) < int(begun)
    assert "add 0" in told, "what was acknowledged"
    assert "▶" in told
    assert "│!│" in told, "the promise that broke"
    assert main(["--play", str(file)]) == 1
    played = capsys.readouterr().out
    assert "not the run that was saved" not in played
    assert [line for line in played.splitlines() if "│" in line] == [line for line in told.splitlines() if "│" in line]


def test_a_file_that_is_no_scenario_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("{}")

    assert main(["--play", str(tmp_path / "file")]) == 2
    assert "no scenario" in capsys.readouterr().err


def test_a_bad_seed_is_a_usage_error() -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["five"])

    assert exit_info.value.code == 2
