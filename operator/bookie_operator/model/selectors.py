"""Label selectors, as an API server reads them (`kubectl get -l`). Pure.

PATTERN also stands in the schema of the operator's chart, so that Helm refuses what the operator would. Without this an
operator with a mistyped selector begins, is told "400 Bad Request" by each list, and keeps no cluster at all.
"""

import re

from bookie.base.errors import BadInput

# Go's expressions, by which Helm looks, know no look-ahead: how long a domain is (253) the API server says.
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY = rf"({_PART}(\.{_PART})*/)?{_NAME}"
_VALUE = rf"({_NAME})?"
_SET = rf"\s+(in|notin)\s*\(\s*{_VALUE}(\s*,\s*{_VALUE})*\s*\)"
_ONE = rf"(!\s*{_KEY}|{_KEY}(\s*(==?|!=)\s*{_VALUE}|\s*[<>]\s*[0-9]+|{_SET})?)"
PATTERN = rf"^(\s*{_ONE}\s*(,\s*{_ONE}\s*)*)?$"
_PATTERN = re.compile(PATTERN)


def check(text: str) -> str:
    """Return `text`, a selector that an API server takes; "" selects everything. Raises BadInput."""
    if _PATTERN.fullmatch(text) is None:
        raise BadInput(
            f"{text!r} selects no labels: write it as `kubectl get -l` takes it, such as team=red, 'team in (red,blue)'"
            " or '!team'"
        )
    return text
