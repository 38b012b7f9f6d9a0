"""One bookie's admin port, from a command's side. Answers are plain dictionaries, as JSON would show them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from bookie.base import errors

# The bookie's own variable for adminTokenFile: in its container these commands know the token.
TOKEN_VARIABLE = "BOOKIE_ADMIN_TOKEN_FILE"
_DEADLINE_S = 20.0
# A flush, a collection or a scrub of everything takes as long as disks are slow.
_LONG_DEADLINE_S = 3600.0


class AdminClient:
    """Raises BookieUnavailable naming the address, and BadInput for what the bookie refuses."""

    def __init__(self, address: str) -> None:
        import grpc

        from bookie.rpc import admin_pb2_grpc

        self.address = address
        self._channel = grpc.insecure_channel(address)
        self._stub = admin_pb2_grpc.AdminStub(self._channel)
        self._metadata = _credentials()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._channel.close()

    def report(self) -> dict[str, Any]:
        """The storage report, inspected now."""
        from bookie.rpc import admin_pb2

        request = admin_pb2.GetStorageReportRequest(fresh=True)
        return fields(
            self._call(lambda: self._stub.GetStorageReport(request, timeout=_DEADLINE_S, metadata=self._metadata))
        )

    def grant(self, grant: Any) -> Any:
        """Send a grant; return the reply."""
        return self._call(lambda: self._stub.GrantRegeneration(grant, timeout=_DEADLINE_S, metadata=self._metadata))

    def statuses(self) -> Iterator[dict[str, Any]]:
        """Of the repair: one at once, then one at each change, until done."""
        from bookie.rpc import admin_pb2

        stream = self._stub.GetRepairStatus(admin_pb2.GetRepairStatusRequest(interval_ms=1000), metadata=self._metadata)
        while True:
            status = self._call(lambda: next(stream, None))
            if status is None:
                return
            yield fields(status)

    def set_read_only(self, *, read_only: bool) -> str:
        """Return the state after it."""
        from bookie.rpc import admin_pb2

        mode = admin_pb2.SetModeRequest.READ_ONLY_MODE if read_only else admin_pb2.SetModeRequest.READ_WRITE
        reply = self._call(
            lambda: self._stub.SetMode(
                admin_pb2.SetModeRequest(mode=mode), timeout=_DEADLINE_S, metadata=self._metadata
            )
        )
        return str(admin_pb2.State.Name(reply.state))

    def prepare_shutdown(self) -> tuple[bool, str]:
        """(everything is flushed, a sentence)."""
        from bookie.rpc import admin_pb2

        request = admin_pb2.PrepareShutdownRequest()
        reply = self._call(
            lambda: self._stub.PrepareShutdown(request, timeout=_LONG_DEADLINE_S, metadata=self._metadata)
        )
        return bool(reply.flushed), str(reply.text)

    def checkpoint(self) -> None:
        """Return once everything acknowledged before is in logs and index."""
        from bookie.rpc import admin_pb2

        request = admin_pb2.CheckpointRequest()
        self._call(lambda: self._stub.Checkpoint(request, timeout=_LONG_DEADLINE_S, metadata=self._metadata))

    def collect_garbage(self, compaction: str) -> dict[str, Any]:
        """A run now; `compaction` is none, minor or major. What it did."""
        from bookie.rpc import admin_pb2

        request = admin_pb2.CollectGarbageRequest(compaction=compaction.upper())
        return fields(
            self._call(lambda: self._stub.CollectGarbage(request, timeout=_LONG_DEADLINE_S, metadata=self._metadata))
        )

    def scrub(self, *, start: bool) -> dict[str, Any]:
        """How the check of all entries goes; `start` asks for a pass now."""
        from bookie.rpc import admin_pb2

        request = admin_pb2.ScrubRequest(start=start)
        return fields(self._call(lambda: self._stub.Scrub(request, timeout=_DEADLINE_S)))

    def _call(self, call: Any) -> Any:
        import grpc

        try:
            return call()
        except grpc.RpcError as error:
            details = error.details() if isinstance(error, grpc.Call) else str(error)
            if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                raise errors.BadInput(f"bookie at {self.address}: {details}") from None
            if isinstance(error, grpc.Call) and error.code() in (
                grpc.StatusCode.UNAUTHENTICATED,
                grpc.StatusCode.PERMISSION_DENIED,
            ):
                raise errors.Unauthorized(f"bookie at {self.address}: {details} (here: {TOKEN_VARIABLE})") from None
            raise errors.BookieUnavailable(
                f"the admin port at {self.address} did not answer ({details}); is the bookie running, and is this its "
                "adminPort?"
            ) from None


def _credentials() -> tuple[tuple[str, str], ...]:
    """What proves to a bookie that we may: the first token in the file that the environment names, if it does."""
    path = os.environ.get(TOKEN_VARIABLE, "")
    if not path:
        return ()
    try:
        tokens = Path(path).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.BadInput(f"{TOKEN_VARIABLE} names {path}, which cannot be read: {error}") from None
    return (("authorization", f"Bearer {tokens[0]}"),) if tokens else ()


def fields(message: Any) -> dict[str, Any]:
    """The message as JSON would show it, with every field, enums by name and numbers as numbers."""
    from google.protobuf import json_format

    return _numbers(json_format.MessageToDict(message, always_print_fields_with_no_presence=True), message.DESCRIPTOR)


def _numbers(found: dict[str, Any], descriptor: Any) -> dict[str, Any]:
    """Protobuf's JSON shows 64-bit numbers as text; people and scripts want numbers."""
    by_name = {field.json_name: field for field in descriptor.fields}
    for name, value in found.items():
        field = by_name[name]
        if field.message_type is not None:
            for item in value if isinstance(value, list) else [value]:
                _numbers(item, field.message_type)
        elif isinstance(value, str) and field.type not in (field.TYPE_STRING, field.TYPE_ENUM, field.TYPE_BYTES):
            found[name] = int(value)
    return found
