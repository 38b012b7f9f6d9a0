"""Text that must never be printed: passwords and tokens. In a log, a traceback or a `repr` it reads `<secret>`."""

import hmac


class Secret:
    """One secret. Only `reveal` gives the text away, so that a search for that name finds every use."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself, for the one place that sends or hashes it."""
        return self._text

    def matches(self, text: str) -> bool:
        """Return True when `text` is this secret. Takes the same time wherever the two differ: no guess is timed."""
        return hmac.compare_digest(self._text.encode(), text.encode("utf-8", "surrogateescape"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.matches(other._text)

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "<secret>"
