"""Packs and unpacks a bookie's registration: the payload of its `available` record, where it listens.

Protobuf BookieServiceInfoFormat. An old bookie registers with an empty payload; its id is then its address. Clients
dial the endpoint with protocol `bookie-rpc` and no other. Rule: spec/metadata.md#M24.
"""

import re
from dataclasses import asdict, dataclass

from google.protobuf.message import DecodeError

from bookie.base import errors, text
from bookie.base.ids import BookieId
from bookie.metadata.proto.metadata_pb2 import BookieServiceInfoFormat

BOOKIE_ENDPOINT = "bookie"
BOOKIE_PROTOCOL = "bookie-rpc"
HTTP_ENDPOINT = "httpserver"
HTTP_PROTOCOL = "http"
_PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One port of a bookie. Java's `auth` and `extensions` are not read: nobody sets them."""

    id: str
    host: str
    port: int
    protocol: str


@dataclass(frozen=True, slots=True)
class BookieServiceInfo:
    endpoints: tuple[Endpoint, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def bookie_endpoint(self) -> Endpoint | None:
        """Return the endpoint that clients dial; None: clients cannot use this bookie."""
        return next((endpoint for endpoint in self.endpoints if endpoint.protocol == BOOKIE_PROTOCOL), None)

    def property(self, key: str, default: str = "") -> str:
        return dict(self.properties).get(key, default)


def bookie_service(
    host: str, port: int, properties: tuple[tuple[str, str], ...] = (), *, http_port: int | None = None
) -> BookieServiceInfo:
    """Return the record of a bookie that serves at `host`:`port`, and its admin paths at `http_port` if given."""
    endpoints = [Endpoint(BOOKIE_ENDPOINT, host, port, BOOKIE_PROTOCOL)]
    if http_port is not None:
        endpoints.append(Endpoint(HTTP_ENDPOINT, host, http_port, HTTP_PROTOCOL))
    return BookieServiceInfo(tuple(endpoints), properties)


def dump_service_info(info: BookieServiceInfo) -> bytes:
    message = BookieServiceInfoFormat(properties=dict(info.properties))
    for endpoint in info.endpoints:
        message.endpoints.add(**asdict(endpoint))
    return message.SerializeToString(deterministic=True)


def load_service_info(bookie_id: BookieId, data: bytes) -> BookieServiceInfo:
    """Return the record of `bookie_id`; an empty one comes from an id of the form host:port. Raises BadInput."""
    if not data:
        return _legacy(bookie_id)
    message = BookieServiceInfoFormat()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise errors.BadInput(f"the registration of bookie {bookie_id} cannot be read: {error}") from error
    return BookieServiceInfo(
        endpoints=tuple(
            Endpoint(_text(item.id), _text(item.host), item.port, _text(item.protocol)) for item in message.endpoints
        ),
        properties=_properties(message),
    )


def _properties(message: BookieServiceInfoFormat) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(sorted((_text(key), _text(value)) for key, value in message.properties.items()))
    except UnicodeDecodeError as error:  # the parser looks a key up again, as text
        raise errors.BadInput(f"a field of a registration is not text: {error}") from error


def _text(value: object) -> str:
    return text.checked(value, "a field of a registration")


def _legacy(bookie_id: BookieId) -> BookieServiceInfo:
    host, separator, port = bookie_id.rpartition(":")
    if not separator or not _PORT.fullmatch(port) or int(port) > 65_535:
        return BookieServiceInfo()
    return bookie_service(host, int(port))
