"""What a failed test says of the processes that it ran."""

from pathlib import Path

import pytest

import children


def test_an_error_tells_how_the_logs_of_its_processes_end(tmp_path: Path) -> None:
    log = tmp_path / "bookie.log"

    def fails() -> None:
        with children.explained(lambda: [log, tmp_path / "never written"]):
            log.write_text("begin " + "x" * 5000 + " end")
            raise AssertionError("2 of 3")

    with pytest.raises(AssertionError, match="2 of 3") as caught:
        fails()

    said, nothing = caught.value.__notes__
    assert str(log) in said
    assert said.endswith(" end")
    assert "begin" not in said
    assert nothing == f"---- {tmp_path}/never written ends:\n"
