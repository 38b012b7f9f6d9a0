"""A request over HTTP and its answer, as values: `runtime.http` carries them, so that a handler knows no socket."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`path` without the query. `caller`: the name that the caller has proven; "" = an unknown caller."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    caller: str = ""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    body: bytes = b""
    content_type: str = TEXT


Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]
