"""Lines of libraries that a stranger can cause are few; our own are all there."""

import logging
from collections.abc import Iterator

import pytest

from bookie.base import line_limit
from bookie.runtime import log


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it is set up for a process; as before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield root
    root.handlers, root.level = handlers, level


@pytest.mark.parametrize(("name", "lines"), [("grpc._cython.cygrpc", line_limit.BURST), ("bookie.server", 100)])
def test_a_library_is_heard_a_few_times(
    name: str, lines: int, root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log.set_up()
    logger = logging.getLogger(name)

    for _ in range(100):
        logger.error("Unexpected [DecodeError] raised by servicer method [%s]", "/bookie.admin.v1.Admin/SetMode")

    assert len(capsys.readouterr().err.splitlines()) == lines
