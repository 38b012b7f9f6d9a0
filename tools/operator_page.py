"""Copies the table of reasons (`bookie_operator.evidence.reasons`) into docs/OPERATOR.md, between its two marks.

python tools/operator_page.py          part of `make crds`
"""

from pathlib import Path

from bookie_operator.evidence import reasons

PAGE = Path(__file__).resolve().parents[1] / "docs" / "OPERATOR.md"
BEGIN, END = "<!-- begin: reasons, written by `make crds` -->\n", "\n<!-- end: reasons -->"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(before + reasons.page() + after, encoding="utf-8")


if __name__ == "__main__":
    main()
