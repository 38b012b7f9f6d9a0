"""A wheel with the hot modules compiled: `BOOKIE_NATIVE=1 pip install '.[bookie]'` (docs/decisions/0007-native.md).

Hatchling runs this where a wheel is built. Without `BOOKIE_NATIVE` the wheel is of sources alone and fits every
machine; with it the wheel is for this Python and this platform. An editable installation has sources alone in any case:
what one edits is what runs.
"""

import os
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import native

ASKED = "BOOKIE_NATIVE"


class NativeModules(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled modules to a wheel, beside their sources."""

    def dependencies(self) -> list[str]:
        if os.environ.get(ASKED) != "1":
            return []
        project = tomllib.loads((Path(self.root) / "pyproject.toml").read_text())["project"]
        found: list[str] = project["optional-dependencies"]["native"]
        return found

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if os.environ.get(ASKED) != "1" or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="bookie-wheel-")
        target = Path(self._folder.name)
        for path in native.compile_into(target):
            build_data["force_include"][str(path)] = str(path.relative_to(target))
        build_data |= {"pure_python": False, "infer_tag": True}
