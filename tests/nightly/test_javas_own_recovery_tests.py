"""The rest of BookKeeper's own tests of recovery that our processes stand for (docs/JAVA-TESTS.md, kind `nightly`)."""

from collections.abc import Iterator

import pytest

import java_support
import official_tests_support
from official_tests_support import OfficialTests

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfficialTests]:
    java_support.ensure_java()
    with OfficialTests(tmp_path_factory.mktemp("official")) as tests:
        yield tests


@pytest.mark.parametrize("test", official_tests_support.rows("nightly"))
def test_green_with_our_process_in_javas_place(test: str, official: OfficialTests) -> None:
    assert official.play(test) == ""
