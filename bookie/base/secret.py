"""Text that must never be printed: passwords and tokens. Logs, tracebacks and the `repr` of who holds one are safe."""

import hmac


class Secret:
    """One secret. Only `reveal` gives it away, so every use can be found by that name."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself: for the one place that sends or hashes it."""
        return self._text

    def matches(self, text: str) -> bool:
        """True when `text` is this secret; takes the same time wherever they differ."""
        return hmac.compare_digest(self._text.encode(), text.encode("utf-8", "surrogateescape"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.matches(other._text)

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "<secret>"
