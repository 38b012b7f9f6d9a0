"""Marks of ledgers that lack replicas, as Java's auditor writes them: we only read them (spec/metadata.md#M30, M31)."""

from collections.abc import Iterable


def path(root: str, ledger_id: int) -> str:
    """Sixteen hex digits in four levels, then the decimal name."""
    digits = f"{ledger_id:016x}"
    levels = "/".join(digits[start : start + 4] for start in range(0, 16, 4))
    return f"{root}/underreplication/ledgers/{levels}/urL{ledger_id:010d}"


def mark(missing: Iterable[str], marked_ms: int | None = None) -> bytes:
    lines = [f'replica: "{bookie_id}"\n' for bookie_id in missing]
    lines += [] if marked_ms is None else [f"ctime: {marked_ms}\n"]
    return "".join(lines).encode()
