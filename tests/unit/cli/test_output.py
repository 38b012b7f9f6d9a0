"""Tables, facts and consent: how commands talk."""

import argparse
import json

import pytest

from bookie.base import errors
from bookie.cli import output

COLUMNS = {"id": "ID", "count": "COUNT", "where": "WHERE"}
ROWS = [{"id": "a-long-name", "count": 7, "where": ["x", "y"]}, {"id": "b", "count": 12_345, "where": None}]


def test_a_table_lines_up_and_numbers_stand_to_the_right() -> None:
    assert output.table(ROWS, COLUMNS) == [
        "ID           COUNT  WHERE",
        "a-long-name      7  x, y",
        "b            12345  -",
    ]


@pytest.mark.parametrize("written", ["\ud800", "a\nb", "\x1b[31m", "\u202e", "a\tb"], ids=ascii)
def test_what_strangers_wrote_moves_no_cursor_and_can_be_written(written: str) -> None:
    lines = output.table([{"by": written, "seconds": 7}], {"by": "BY", "seconds": "SECONDS"})
    told = output.facts({"by": written, "all": [written, "b"]}).split("\n")

    assert len(lines) == len(told) == 2
    assert all(line.isprintable() and line.encode() for line in (*lines, *told))


@pytest.mark.parametrize("written", ["\ud800", "\x1b[31m", "\u202e", "a\tb"], ids=ascii)
def test_sentences_move_no_cursor_either_and_keep_their_lines(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.say(argparse.Namespace(json=False), {}, f"first\ncustom {written}")
    output.tell(f"bookie: {written}\nlast")

    said = capsys.readouterr()
    lines = [*said.out.splitlines(), *said.err.splitlines()]
    assert [lines[0], lines[-1]] == ["first", "last"]
    assert all(line.isprintable() and line.encode() for line in lines)


def test_an_empty_table_still_has_its_heading() -> None:
    assert output.table([], COLUMNS) == ["ID  COUNT  WHERE"]


def test_a_list_is_one_json_array(capsys: pytest.CaptureFixture[str]) -> None:
    output.rows(argparse.Namespace(json=True), ROWS, COLUMNS)

    assert json.loads(capsys.readouterr().out) == ROWS


def told(*, yes: bool, dry_run: bool, json: bool = False) -> argparse.Namespace:
    return argparse.Namespace(yes=yes, dry_run=dry_run, json=json)


def test_what_destroys_is_not_done_without_yes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(errors.GrantRefused, match="--yes"):
        output.consents(told(yes=False, dry_run=False), ["plan: burn it"])
    assert output.consents(told(yes=True, dry_run=True), ["plan: burn it"]) is False
    assert output.consents(told(yes=True, dry_run=False), ["plan: burn it"]) is True

    said = capsys.readouterr()
    assert said.err.count("plan: burn it") == 3
    assert said.out == ""


def test_a_plan_that_is_only_shown_is_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert output.consents(told(yes=True, dry_run=True, json=True), ["plan: burn it", "then leave"]) is False

    assert json.loads(capsys.readouterr().out) == {"dryRun": True, "plan": ["plan: burn it", "then leave"]}
    assert output.consents(told(yes=True, dry_run=True, json=True), ["plan: burn it"], is_all=False) is False
    assert output.consents(told(yes=True, dry_run=False, json=True), ["plan: burn it"]) is True
    assert capsys.readouterr().out == "", "what comes after is the document"


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("writing", 3) as done:
        done(1)

    assert capsys.readouterr() == ("", "")


def test_a_long_job_says_in_a_log_how_far_it_is_and_not_too_often(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 100.0
    lines = output.ProgressLines("moving ledgers", 9, lambda: now_s)
    for _ in range(9):
        now_s += output.PROGRESS_LINE_S / 3
        lines.add(1)

    assert capsys.readouterr().err.splitlines() == [f"moving ledgers: {done} of 9" for done in (3, 6, 9)]
