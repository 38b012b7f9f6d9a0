"""A container runtime that asks the kernel only for what this machine may give, then runs runc.

Where CAP_SYS_RESOURCE is missing from the bounding set, `docker run --privileged` (which kind
always uses) fails, and so does every negative OOM score. dockerd calls this program in place of
runc; it takes both out of the JSON that runc is about to read. It must change nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

RUNC = "runc"
REFUSED = "CAP_SYS_RESOURCE"


def flag_value(arguments: list[str], flags: tuple[str, ...]) -> str | None:
    """Return the value of the first of `flags` in `arguments`, as `--flag x` or `--flag=x`."""
    for index, argument in enumerate(arguments):
        name, separator, value = argument.partition("=")
        if name in flags:
            if separator:
                return value
            return arguments[index + 1] if index + 1 < len(arguments) else None
    return None


def without_refused(process: dict[str, Any]) -> dict[str, Any]:
    """Return the OCI `process` object without the refused capability and a negative OOM score."""
    kept = {name: value for name, value in process.items() if name != "oomScoreAdj"}
    if process.get("oomScoreAdj", 0) > 0:
        kept["oomScoreAdj"] = process["oomScoreAdj"]
    if process.get("capabilities"):
        kept["capabilities"] = {
            group: [name for name in names if name != REFUSED] for group, names in process["capabilities"].items()
        }
    return kept


def rewrite(arguments: list[str]) -> None:
    """Rewrite the JSON file that this call of runc will read, where there is one."""
    process_path = flag_value(arguments, ("--process", "-p"))
    bundle = flag_value(arguments, ("--bundle", "-b"))
    if process_path is not None:
        path = Path(process_path)
        path.write_text(json.dumps(without_refused(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    elif bundle is not None:
        path = Path(bundle) / "config.json"
        config = json.loads(path.read_text())
        config["process"] = without_refused(config["process"])
        path.write_text(json.dumps(config))


if __name__ == "__main__":
    rewrite(sys.argv[1:])
    os.execvp(RUNC, [RUNC, *sys.argv[1:]])
