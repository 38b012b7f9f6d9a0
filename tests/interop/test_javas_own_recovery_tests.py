"""BookKeeper's own tests of auditor, re-replication and recovery, with our processes in the place of Java's.

Which are run, which cannot be, and why: docs/JAVA-TESTS.md, whose table this reads.
"""

from collections.abc import Iterator

import pytest

import official_tests_support
from official_tests_support import OfficialTests

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory, folder: object) -> Iterator[OfficialTests]:
    """`folder`: there is a Java."""
    with OfficialTests(tmp_path_factory.mktemp("official")) as tests:
        yield tests


@pytest.mark.parametrize("test", official_tests_support.rows("run"))
def test_green_with_our_process_in_javas_place(test: str, official: OfficialTests) -> None:
    assert official.play(test) == ""


def test_the_page_counts_its_rows_and_each_is_there_once() -> None:
    page = official_tests_support.PAGE.read_text()
    every = official_tests_support.rows(*official_tests_support.KINDS)

    assert len(every) == len(set(every)) == page.count("| `replication.") + page.count("| `client.")
    assert f"Of {len(every)} methods" in page
    for kind in official_tests_support.KINDS:
        assert f"| {kind} | {len(official_tests_support.rows(kind))} |" in page, kind
