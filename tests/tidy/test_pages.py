"""Every command block of the pages is run by a test as printed, or stands here with the reason why not."""

import re
from pathlib import Path

import pytest

import pages_support
from pages_support import SHELL, Block

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = {
    "README.md: Two commands": "the second runs this test; tests/e2e/test_story.py tells the first one's story",
    "README.md: On Kubernetes (2)": "needs a registry; the demo installs the same chart with these two values",
    "docs/OPERATOR.md: Install (2)": "the same as the first; tests/nightly/test_installs.py does it beside it",
    "docs/OPERATOR.md: Scale down": "takes a bookie away for good; tests/simulation/operator/test_leaving.py tells it",
    "docs/OPERATOR.md: Growth": "needs a class whose volumes grow; tests/simulation/operator/test_growth.py tells it",
    "docs/OPERATOR.md: Growth (2)": "copies every byte of a fleet; tests/simulation/operator/test_rebuild.py tells it",
    "docs/OPERATOR.md: Growth (3)": "cannot be taken back; tests/simulation/operator/test_added_volumes.py tells it",
    "docs/HACKING.md: Hacking": "the targets of the Makefile, of which CI runs `test`, and `test` the others' parts",
    "docs/PIPELINE.md: Executors on Kubernetes": "needs a service account that may start pods; argued on the page",
}
_USED = re.compile(r'pages_support\.block\(\s*"([^"]+)",\s*"([^"]+)"(?:,\s*(?:number=)?(\d+))?\s*\)')
# What a page may have pip install; `.` is the checkout. Any name is some stranger's package, or none: ours is in no
# registry.
_INSTALLED = re.compile(r"pip install '([^'\[]+)")
BLOCKS = [block for page in pages_support.pages() for block in pages_support.blocks(page) if block.language in SHELL]


def _run_by_tests() -> set[tuple[str, str, int]]:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {(page, heading, int(number or 1)) for text in texts for page, heading, number in _USED.findall(text)}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_command_block_is_run_as_printed_or_has_a_reason_not_to_be(block: Block) -> None:
    is_run = (block.page, block.heading, block.number) in _run_by_tests()

    assert is_run != (block.name in NOT_RUN), (
        f"{block.name}: run it in a test by pages_support.block(...), or say here why it cannot be run, not both"
    )


def test_every_reason_is_that_of_a_block_that_is_there() -> None:
    assert set(NOT_RUN) <= {block.name for block in BLOCKS}


def test_a_page_has_nobody_install_a_strangers_package() -> None:
    named = {name for page in pages_support.pages() for name in _INSTALLED.findall((ROOT / page).read_text("utf-8"))}

    assert named == {"."}
