"""Copies tables into docs/OPERATOR.md, each between its two marks: the reasons (`bookie_operator.evidence.reasons`) and
the alerts of the operator's chart.

python tools/operator_page.py          part of `make crds`
"""

from pathlib import Path

import yaml

from bookie_operator.evidence import reasons

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "OPERATOR.md"
ALERTS = ROOT / "charts" / "bookie-operator" / "files" / "alerts.yaml"


def alerts() -> str:
    """Return the table of alerts."""
    rows = ["| alert | severity | do |", "|---|---|---|"]
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        rows += [
            f"| `{rule['alert']}` | {rule['labels']['severity']} | {rule['annotations']['action']} |"
            for rule in group["rules"]
        ]
    return "\n".join(rows)


def with_tables(text: str) -> str:
    """Return the page `text` with its tables made anew. Raises ValueError when a mark is missing."""
    for name, table in (("reasons", reasons.page()), ("alerts", alerts())):
        begin, end = f"<!-- begin: {name}, written by `make crds` -->\n", f"\n<!-- end: {name} -->"
        text = text[: text.index(begin) + len(begin)] + table + text[text.index(end) :]
    return text


def main() -> None:
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
