"""The answer of an audit, picked out of what it wrote."""

import pytest

import audit
from stage import DemoFailed

TOLD = 'audit:  9.1 s  Spark is up\n{"half": \n{"outcome": "damage"}\naudit: 12.0 s  done\n'


@pytest.mark.parametrize("code", [0, audit.FOUND, audit.UNKNOWN])
def test_the_summary_is_the_last_line_that_is_an_object(code: int) -> None:
    assert audit.parsed(TOLD, code, "the log") == {"outcome": "damage"}


@pytest.mark.parametrize(("told", "code"), [(TOLD, 1), ("audit: no Java\n", 0), ("", 137)])
def test_an_audit_without_an_answer_ends_the_story(told: str, code: int) -> None:
    with pytest.raises(DemoFailed, match=f"exit code {code}") as failed:
        audit.parsed(told, code, "the log")

    assert failed.value.look_at == "the log"
