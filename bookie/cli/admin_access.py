"""How a command proves itself to a bookie's admin port: with the certificate or token that environment variables
name."""

import os
from pathlib import Path

from bookie.base import errors, ids
from bookie.cli import output
from bookie.rpc import client as rpc
from bookie.runtime import given_file, text_file
from bookie.settings.table import PORT_MAX

# The bookie's own variable for adminTokenFile: in its container these commands know the token.
TOKEN_VARIABLE = "BOOKIE_ADMIN_TOKEN_FILE"
# A directory with tls.crt, tls.key and ca.crt: what opens a bookie's adminTlsPort.
TLS_VARIABLE = "BOOKIE_ADMIN_CLIENT_TLS_DIRECTORY"


def client(address: str) -> rpc.AdminClient:
    """Return a client of the admin port: over TLS, with our certificate, when the environment names one; else in plain.
    Raises BadInput."""
    host, _, number = address.rpartition(":")
    port = ids.decimal(number)
    if not address.isprintable() or address == "unix:" or (host != "unix" and (not host or port is None)):
        raise errors.BadInput(f"{address!r} names no admin port: give HOST:PORT, or unix:PATH")
    if host != "unix" and port is not None and not 0 < port <= PORT_MAX:  # gRPC takes it modulo 2^16
        raise errors.BadInput(f"{address} names port {port}: it must be 1 to {PORT_MAX}")
    is_local = address.startswith(("unix:", "localhost:", "127.0.0.1:", "[::1]:"))
    return rpc.AdminClient(
        address,
        _identity(address),
        token=_token() if is_local else "",  # never in clear over a network
        deadline_s=rpc.DEADLINE_S,
        waiting=lambda at_most: output.told_if_slow(f"the bookie at {address}{at_most}"),
    )


def hint(code: str) -> str:
    """Return what an error message should add to a refusal with gRPC's status code `code`."""
    if code != "UNAUTHENTICATED":
        return ""
    return f" (here: {TLS_VARIABLE if os.environ.get(TLS_VARIABLE) else TOKEN_VARIABLE})"


def unreached(address: str) -> str:
    """Return what an error message should ask of an admin port that did not answer. A port that wants TLS, or another
    certificate, closes the connection without a word, and so does one in plain that is spoken to in TLS."""
    directory = os.environ.get(TLS_VARIABLE, "")
    if not directory or address.startswith("unix:"):
        return (
            f"is the bookie running, and is this its adminPort? (Its adminTlsPort wants a certificate: {TLS_VARIABLE})"
        )
    return (
        f"is the bookie running, and is this its adminTlsPort, whose ca.crt vouches for {directory}/tls.crt, which has"
        f" not ended? ({TLS_VARIABLE} is set, so TLS is spoken: its adminPort does not understand that)"
    )


def _identity(address: str) -> rpc.AdminCredentials | None:
    directory = os.environ.get(TLS_VARIABLE, "")
    if not directory or address.startswith("unix:"):
        return None
    try:
        certificate, key, authorities = (
            given_file.read(Path(directory) / name) for name in ("tls.crt", "tls.key", "ca.crt")
        )
    except OSError as error:
        raise errors.BadInput(
            f"{TLS_VARIABLE} names {directory}, which cannot be used: {error.strerror}: it needs tls.crt, tls.key and"
            " ca.crt"
        ) from None
    return rpc.AdminCredentials(certificate, key, authorities)


def _token() -> str:
    """Return the first token in the file that the environment names, if it names one."""
    path = os.environ.get(TOKEN_VARIABLE, "")
    return next(iter(text_file.read(path, f"{TOKEN_VARIABLE} names a file: ").split()), "") if path else ""
