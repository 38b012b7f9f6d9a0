"""Sizes and times: the only home of unit arithmetic."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
HOUR_MS = 3_600_000


def div_ceil(numerator: int, denominator: int) -> int:
    """Divide integers and round up. Both are counts or sizes; `denominator` > 0."""
    return -(-numerator // denominator)


def format_bytes(size: float) -> str:
    """Return `size` bytes as text for people: '1.5 MiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
