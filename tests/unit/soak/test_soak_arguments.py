"""`make soak`: which campaigns run, and how much of each."""

import pytest

import soak_arguments
from soak_arguments import CAMPAIGNS

ALL = {name: amount for name, (amount, _) in CAMPAIGNS.items()}
NONE = dict.fromkeys(CAMPAIGNS, 0)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], ALL),
        (["--faults", "3"], ALL | {"faults": 3}),
        (["--mixed", "0"], ALL | {"mixed": 0}),
        (["--only", "faults"], NONE | {"faults": 60}),
        (["--only", "faults", "--faults", "3"], NONE | {"faults": 3}),
        (["--only", "faults", "--only", "seeds"], NONE | {"faults": 60, "seeds": 500}),
        (["--only", "faults", "--rounds", "0"], NONE | {"faults": 60}),
    ],
)
def test_every_campaign_runs_but_for_those_that_are_left_out(words: list[str], wanted: dict[str, int]) -> None:
    found = vars(soak_arguments.parse(words, "about"))

    assert {name: found[name] for name in CAMPAIGNS} == wanted


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "faults", "--rounds", "5"], "--only leaves --rounds 5 out: add --only rounds, or take --rounds"),
        (["--only", "chaos"], "invalid choice: 'chaos'"),
        (["--faults", "-1"], "'-1' is no whole number from 0 on"),
        (["--faults", "many"], "'many' is no whole number from 0 on"),
    ],
)
def test_what_cannot_be_meant_runs_nothing(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        soak_arguments.parse(words, "about")

    assert said in capsys.readouterr().err
