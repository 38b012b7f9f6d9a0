"""The admin port over TLS: a server for each set of certificates, on one port after the other.

gRPC can be given other certificates at a handshake, by a callback. It then frees the former ones, also while another of
its threads begins a handshake with them, and the process ends by a broken heap (seen with 1.71 to 1.85): a stranger who
dials while certificates are renewed could end a bookie. So what is served never changes: who listens does. The former
server closes its door, the next one opens it (some 2 ms in which a caller is refused, and dials again); calls in flight
are answered by the former.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from bookie.base import errors
from bookie.ports.doors import Doors
from bookie.ports.network import Address

if TYPE_CHECKING:  # it brings the package cryptography, 9 MB, which a bookie without certificates does not want
    from bookie.runtime.admin_tls import Certificates, Files

log = logging.getLogger(__name__)

# Calls that are being answered get this long when the process stops, and when the certificates are renewed. The latter
# is how long a connection lives at most (`admin.py`): none outlives the authority behind it by more.
STOP_GRACE_S = 0.5
RENEWAL_GRACE_S = 600.0
_LOOK_S = 1.0
_BIND_AGAIN_S, _TRIES_QUICK = 0.002, 1_000


@dataclasses.dataclass(slots=True)
class Secured:
    """The TLS port, for callers with a certificate. `bound`: its number, once it is served."""

    address: Address
    certificates: "Certificates"
    bound: int = 0


class SecurePort:
    """Serves one port over TLS, and follows the files of its certificates for as long as it is served."""

    def __init__(self, tls: Secured, make: Callable[[], grpc.aio.Server], doors: Doors) -> None:
        """`make`: a server with its services."""
        self._tls, self._make, self._doors = tls, make, doors
        self._files = tls.certificates.current()
        self._server = make()
        self._former: dict[grpc.aio.Server, asyncio.Task[None]] = {}

    async def listen(self) -> None:
        """Have the port; nobody is answered before `served`. Raises BadInput for certificates that gRPC cannot use, and
        RefusedToStart."""
        address = self._tls.address
        try:
            self._tls.bound = bind(lambda: _add_port(self._server, address, self._files), f"{address}", "adminTlsPort")
        except errors.RefusedToStart:
            await self._try_out(self._files)  # gRPC gives one error for all that may be wrong
            raise

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Answer callers until the context is left."""
        await self._server.start()
        following = asyncio.create_task(self._follow(), name="admin certificates")
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await asyncio.gather(*(server.stop(STOP_GRACE_S) for server in (self._server, *self._former)))

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                files = self._tls.certificates.current()
                if files.shown != self._files.shown:
                    await self._renew(files)
                    self._files = files
            except Exception as error:
                self._doors.failed("admin", error)

    async def _renew(self, files: "Files") -> None:
        try:
            await self._try_out(files)
        except errors.BadInput as error:
            log.warning("certificates of the admin port not renewed, the former stay in use reason=%s", error)
            return
        former, address = self._server, Address(self._tls.address.host, self._tls.bound)
        self._former[former] = asyncio.create_task(self._end(former), name="admin port, former certificates")
        tries = 0
        while True:
            await asyncio.sleep(_BIND_AGAIN_S if tries < _TRIES_QUICK else _LOOK_S)
            self._server = self._make()
            try:
                _add_port(self._server, address, files)
            except RuntimeError as error:  # the former still holds it, or another process was faster
                tries += 1
                if tries == _TRIES_QUICK:
                    log.warning("nobody can call over TLS until %s can be had again reason=%s", address, error)
            else:
                await self._server.start()
                log.info("certificates of the admin port renewed")
                return

    async def _end(self, former: grpc.aio.Server) -> None:
        try:
            await former.stop(RENEWAL_GRACE_S)
        except Exception as error:
            self._doors.failed("admin", error)
        del self._former[former]

    async def _try_out(self, files: "Files") -> None:
        """Raise BadInput for files that gRPC cannot use: it takes fewer kinds of keys than our own look at them."""
        trial = self._make()
        try:
            _add_port(trial, Address(self._tls.address.host, 0), files)
        except RuntimeError:
            raise errors.BadInput(
                "adminTlsDirectory: gRPC cannot use this certificate and key: take an RSA key, or one on the curve"
                " P-256, P-384 or P-521"
            ) from None
        finally:
            await trial.stop(None)


def bind(listen: Callable[[], int], where: str, setting: str) -> int:
    """Return the number of the port that is listened on. Raises RefusedToStart."""
    try:
        return listen()
    except RuntimeError as error:
        raise errors.RefusedToStart(
            f"cannot listen on {where} for the admin service: the port is in use or not ours;"
            f" stop the other process, or choose another {setting}"
        ) from error


def _add_port(server: grpc.aio.Server, address: Address, files: "Files") -> int:
    shown = grpc.ssl_server_credentials([(files.key, files.certificate)], files.authorities, True)
    return int(server.add_secure_port(f"{address}", shown))
