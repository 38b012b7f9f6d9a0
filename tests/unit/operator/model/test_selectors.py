"""Label selectors: what an API server takes and what it refuses (k8s.io/apimachinery, pkg/labels/selector_test.go)."""

import pytest

from bookie.base.errors import BadInput
from bookie_operator.model import selectors

TAKEN = (
    *("", "team", "!team", "! team", "team=red", "team==red", "team!=red", " team = red , !old ", "team=", "x=a,y!=b"),
    *("team in (red,blue)", "team notin ( red , blue )", "team in (red,)", "team in(red)", "a>3,b<4", "A.b_c-d=E.f_g"),
    *("team.example.org/name=red", "team in (red),app,!old"),
)
REFUSED = (
    *(" ", "=", "==", "=red", "team=red=blue", "team in (red", "team in red", "teamin (red)", "team in (red))", "!"),
    *(
        "team is red",
        "team=re d",
        "team,",
        ",team",
        "a,,b",
        "team>red",
        "team>-1",
        "-team=red",
        "team=-red",
        "team.=red",
        "!team=red",
    ),
    *("Example.org/team=red", "a/b/c=d", "/team", "team=red\n\nx", "té=red", 'team="red"', "team: red", "a" * 64),
)


@pytest.mark.parametrize("text", TAKEN)
def test_what_an_api_server_takes_is_taken(text: str) -> None:
    assert selectors.check(text) == text


@pytest.mark.parametrize("text", REFUSED)
def test_what_an_api_server_refuses_is_refused_before_it_is_asked(text: str) -> None:
    with pytest.raises(BadInput, match="kubectl get -l"):
        selectors.check(text)
