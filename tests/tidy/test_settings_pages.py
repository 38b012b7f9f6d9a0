"""Settings that a page tells are settings that there are, with the default that they have."""

import re
from pathlib import Path

import pytest

from bookie.base.units import MIB
from bookie.settings import table

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "INTEGRITY.md").read_text(encoding="utf-8")
TOLD = PAGE[PAGE.index("## Settings") : PAGE.index("## Limits")]
ROWS = re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? ?\|", TOLD, re.MULTILINE)


@pytest.mark.parametrize(("name", "default"), ROWS)
def test_a_setting_of_integrity_exists_with_its_default(name: str, default: str) -> None:
    settings = {setting.key: setting for setting in table.SETTINGS}

    assert name in settings
    told = default.strip()
    assert settings[name].default == (str(int(told.removesuffix(" MiB")) * MIB) if told.endswith("MiB") else told)


def test_the_page_has_its_settings() -> None:
    assert len(ROWS) >= 5
