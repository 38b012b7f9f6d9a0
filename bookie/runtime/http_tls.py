"""HTTP over TLS with the admin port's certificates: a caller may show a certificate, and then has its name, or none."""

import ssl
from pathlib import Path

from bookie.ports.tls import TlsOptions
from bookie.runtime.admin_tls import AUTHORITIES, CERTIFICATE, KEY
from bookie.runtime.tls import SslTls


def options(directory: str) -> TlsOptions:
    """Return the files in `directory` by their roles."""
    folder = Path(directory)
    return TlsOptions(
        key_store=str(folder / KEY), certificate=str(folder / CERTIFICATE), trust_store=str(folder / AUTHORITIES)
    )


def context(directory: str) -> ssl.SSLContext:
    """Return a TLS context for the files in `directory` (`admin_tls`), read anew at each handshake. Raises BadInput."""
    tls = SslTls(options(directory), is_server=True)

    def current() -> ssl.SSLContext:
        newest = tls.context()
        newest.verify_mode = ssl.CERT_OPTIONAL
        return newest

    def renew(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = current()

    first = current()
    first.sni_callback = renew  # called for each handshake, also of callers that name no server
    return first
