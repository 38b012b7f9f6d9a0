"""A question over HTTP and its answer, as values: `runtime.http` carries them, whoever answers knows no socket."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """`path` without the query. `is_local`: it comes from this machine itself."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    content_type: str = TEXT


Handler = Callable[[Request], Awaitable[Answer]]
