"""`python -m bookie.sim`: what it prints, and its exit code."""

import pytest

from bookie.sim.__main__ import main


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


def test_a_bad_seed_is_a_usage_error() -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["five"])

    assert exit_info.value.code == 2
