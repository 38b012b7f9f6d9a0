"""Settings that a page tells are settings that there are, with the default that they have."""

import re
from pathlib import Path

import pytest

from bookie.base.units import MIB
from bookie.runtime import properties
from bookie.settings import table
from bookie.settings.values import Value

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "INTEGRITY.md").read_text(encoding="utf-8")
TOLD = PAGE[PAGE.index("## Settings") : PAGE.index("## Limits")]
# What a page prints is copied as it is: blocks with a line `name=value` of a setting.
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in sorted((ROOT / "docs").glob("*.md"))
    for number, (_, block) in enumerate(re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S))
    if any(line.partition("=")[0] in table.BY_NAME for line in block.splitlines())
]
ROWS = re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? ?\|", TOLD, re.MULTILINE)


@pytest.mark.parametrize(("name", "default"), ROWS)
def test_a_setting_of_integrity_exists_with_its_default(name: str, default: str) -> None:
    settings = {setting.key: setting for setting in table.SETTINGS}

    assert name in settings
    told = default.strip()
    assert settings[name].default == (str(int(told.removesuffix(" MiB")) * MIB) if told.endswith("MiB") else told)


def test_the_page_has_its_settings() -> None:
    assert len(ROWS) >= 5


@pytest.mark.parametrize("block", BLOCKS)
def test_settings_that_a_page_prints_are_taken_as_they_are(block: str, tmp_path: Path) -> None:
    """A remark behind a value belongs to the value, as in Java."""
    (tmp_path / "printed.conf").write_text(block)

    for name, text, _ in properties.read(str(tmp_path / "printed.conf")):
        value = Value(table.BY_NAME[name], text, "printed")
        assert value.problem() == ""
        assert "#" not in value.text


def test_the_pages_print_settings() -> None:
    assert len(BLOCKS) >= 2
