"""What a text of a spec must look like, and the sentence for one that does not (spec/operator.md#K16).

A `pattern` of a CRD answers with a bare regular expression. So each shape is a rule instead: in CEL for the API server,
and by the same expression and the same words here, for an operator under an older CRD. Both put the field before the
sentence, with the place in its list (`spec.storage.ledgers.volumes[0].size`), so that the sentence does not name it.
The one exception is what may be a number as well (`storage.py: Amount`).
"""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler

from bookie_operator.model import cel, values

_SHOWN_CHARS = 64


@dataclass(frozen=True, slots=True)
class TextShape:
    """An annotation of a text. `pattern`: a regular expression for the whole of it, that RE2 and Python read alike.
    `message`: what a text that does not fit is, after the text itself, and what to write instead."""

    pattern: str
    message: str

    @property
    def rule(self) -> cel.CelRule:
        assert not {'"', "\\", "\n"} & set(self.message), "it stands in a text of CEL, and in one line"
        return cel.CelRule(self.fits("self"), f"it {self.message}", told=f"""\"'\" + self + \"' {self.message}\"""")

    def fits(self, text: str) -> str:
        """Return the CEL of: `text`, an expression, has this shape."""
        return f"{text}.matches(r'{self.pattern}')"

    def check(self, text: str) -> str:
        """Return `text`. Raises ValueError, which becomes a part of a ValidationError, when it has another shape."""
        if re.fullmatch(self.pattern, text):
            return text
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
        raise ValueError(f"{shown!r} {self.message}")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return AfterValidator(self.check).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) | cel.schema((self.rule,))


def number_as_text(value: object) -> object:
    """Return a whole number as the text that Kubernetes reads alike; anything else as it is."""
    return str(value) if isinstance(value, int) else value


_DASHED = "lower-case letters a to z, digits and '-', with a letter or a digit at both ends"

QUANTITY = TextShape(
    values.QUANTITY_PATTERN,
    "is not an amount: write a number and, without a blank, one of Ki, Mi, Gi, Ti, Pi (1024), k, M, G, T, P (1000), m"
    " (a thousandth) or no unit, such as 100Gi or 500m; there is no B at the end",
)
DURATION = TextShape(
    values.DURATION_PATTERN,
    "is not a span of time: write whole numbers, each with ms, s, m or h, without blanks, such as 90s or 1h30m (a day"
    " is 24h)",
)
TIME = TextShape(
    values.TIME_PATTERN,
    "is not a time of RFC 3339: write date, T, time with seconds, and Z or the distance from UTC, such as"
    " 2026-11-23T04:00:00Z or 2026-11-23T05:00:00+01:00",
)
POOL_NAME = TextShape(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    f"cannot be part of the names of pods: write {_DASHED}, such as zone-a",
)
VOLUME_NAME = TextShape(
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
    "cannot be the name of a claim and of a directory: write lower-case letters a to z, digits and '-', with a letter"
    " first and no '-' last, such as ledgers-0",
)
METADATA_URI = TextShape(
    r"^zk(\+[a-z]+)?://[^/]+(/[A-Za-z0-9_.-]+)+$",
    "is not where a metadata store is: write zk+hierarchical://, the hosts with their ports and ';' between them, and"
    " the path without '/' at its end, such as zk+hierarchical://zk-0.zk:2181;zk-1.zk:2181/ledgers",
)
DOMAIN = TextShape(
    r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
    "is not a domain: write lower-case letters a to z, digits, '-' and '.', with a letter or a digit at both ends, such"
    " as cluster.local",
)
SCHEDULE = TextShape(
    r"^\S+ \S+ \S+ \S+ \S+$",
    "is not a schedule: write minute, hour, day of month, month and day of week with one blank between, such as"
    " '0 2 * * SAT'",
)
TIME_ZONE = TextShape(
    r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$",
    "is not the name of a time zone: write such as Europe/Berlin or Etc/UTC",
)
EVIDENCE = TextShape(
    r"^[0-9a-f]{8,64}$",
    "is not an evidence: copy it from status.bookies[].evidence of the BookieCluster, 8 to 64 digits 0 to 9 and a to f",
)
LEDGER_ID = TextShape(
    r"^(0|[1-9][0-9]{0,18})$",
    "is not the id of a ledger: write it in decimal digits, without zeros before it, such as '4711'",
)
