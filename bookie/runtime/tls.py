"""Implements `ports.tls` on Python's `ssl`: makes contexts from the files' newest contents.

Each handshake looks whether a file has changed (a `stat` each, nothing beside a handshake) and then loads anew; files
that cannot be loaded, such as half-written ones, are reported once, and the former keys stay in use. Connections that
are open keep what they agreed on. Keys go to OpenSSL through memory, never through a file of ours.
"""

import contextlib
import datetime as dt
import logging
import os
import re
import ssl
from collections.abc import Iterator

from bookie.base import errors
from bookie.ports.tls import Certificate, TlsOptions
from bookie.runtime import keystore, text_file
from bookie.runtime.keystore import Material, Validity

log = logging.getLogger(__name__)

# X509_V_ERR_CERT_NOT_YET_VALID, ..._HAS_EXPIRED; ..._HOSTNAME_MISMATCH, ..._IP_ADDRESS_MISMATCH.
_NOT_IN_TIME = (9, 10)
_OTHER_NAME = (62, 64)
# Long enough for whoever has to ask another department.
_SOON = dt.timedelta(days=30)
_Stamp = tuple[text_file.Stamp, ...]
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITES_OF_1_3 = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
)


class SslTls:
    """`ports.tls.Tls`."""

    def __init__(self, options: TlsOptions, *, is_server: bool) -> None:
        """Load the files at once. Raises BadInput."""
        self.options = options
        self.is_server = is_server
        if is_server and not options.key_store:
            raise errors.BadInput("TLS on a bookie needs a key: set tlsKeyStore (and tlsCertificatePath for PEM)")
        self._stamp = self._stamp_now()
        material = keystore.load(options)
        self._context = make_context(options, material, is_server=is_server)
        self._validity = keystore.validity(material)
        self._told = ""
        self._refused_stamp: _Stamp | None = None
        self._tell_of_own_time()

    def context(self) -> ssl.SSLContext:
        """Return the context for the next handshake."""
        stamp = self._stamp_now()
        if stamp not in (self._stamp, self._refused_stamp):
            try:
                material = keystore.load(self.options)
                self._context = make_context(self.options, material, is_server=self.is_server)
            except errors.BadInput as error:
                self._refused_stamp = stamp
                log.warning("new TLS files cannot be used, the former stay in use reason=%s", error)
            else:
                self._stamp, self._refused_stamp = stamp, None
                self._validity = keystore.validity(material)
                log.info("TLS files loaded anew files=%s", ",".join(self.options.files))
        self._tell_of_own_time()
        return self._context

    def _tell_of_own_time(self) -> None:
        """Warn, once for each change, when a client's own certificate is out of its time or soon will be: others then
        refuse it, and the only word of it is in their logs. (Of a bookie's `runtime.certificates` tells.)"""
        if self.is_server:
            return
        told = time_problem(self._validity, dt.datetime.now(dt.UTC)) if self._validity is not None else ""
        if told and told != self._told:
            path = self.options.certificate or self.options.key_store
            log.warning("own certificate file=%s reason=%s: replace the file", path, told)
        self._told = told

    def _stamp_now(self) -> _Stamp:
        """Return a value that changes whenever a file does."""
        return tuple(text_file.stamp(path) for path in self.options.files)


def make_context(options: TlsOptions, material: Material, *, is_server: bool) -> ssl.SSLContext:
    """Return a context with the material. Raises BadInput when OpenSSL cannot use the material."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    versions = [_VERSIONS[name] for name in options.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        older = [name for name in options.ciphers if name not in _SUITES_OF_1_3]
        if older:
            context.set_ciphers(":".join(map(openssl_cipher, older)))
        elif options.ciphers:  # nothing that TLS 1.2 could use was allowed
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        if material.chain:
            with _path_of(material.chain + b"\n" + material.key) as path:
                # A function, so that OpenSSL never asks the terminal for a password that is not set.
                context.load_cert_chain(path, password=lambda: material.key_password)
        if material.trusted:
            context.load_verify_locations(cadata=material.trusted.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        reason = str(error)
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            reason = "the key is not that of the certificate: name the two that were made together"
        raise errors.BadInput(f"TLS: {', '.join(options.files)} cannot be used: {reason}") from None
    if is_server:
        context.verify_mode = ssl.CERT_REQUIRED if options.needs_client_certificate else ssl.CERT_NONE
        # Nobody resumes a session here, as in Java (sessionCacheSize 0).
        context.num_tickets = 0
    else:
        context.check_hostname = options.checks_host_name
        if not material.trusted:
            context.load_default_certs()
    return context


def renew_by(validity: Validity) -> dt.datetime:
    """Return from when on a certificate ends soon: in its last tenth, a month at most. Whoever renews certificates by
    machine has done so by then."""
    begins, ends = validity
    return ends - min((ends - begins) / 10, _SOON)


def time_problem(validity: Validity, now: dt.datetime) -> str:
    """Return why a certificate of this validity needs a look now; "" when it needs none."""
    begins, ends = validity
    if now < begins:
        return f"it is valid from {begins:%Y-%m-%d %H:%M} UTC on, and nobody accepts it before"
    if now > ends:
        return f"it ended {ends:%Y-%m-%d %H:%M} UTC, and nobody accepts it any more"
    if now >= renew_by(validity):
        return f"it ends {ends:%Y-%m-%d %H:%M} UTC"
    return ""


def certificate_remedy(verify_code: int, options: TlsOptions) -> str:
    """Return what a person can try whose other side's certificate did not pass, by OpenSSL's code (x509_vfy.h)."""
    if verify_code in _NOT_IN_TIME:
        return "have it replaced, or look at this machine's clock"
    if verify_code in _OTHER_NAME:
        return f"it must name the address that was dialled, or set {options.named}HostnameVerificationEnabled=false"
    return f"is {options.trust_store or 'the store of the system'} ({options.named}TrustStore) the right authority's?"


@contextlib.contextmanager
def _path_of(data: bytes) -> Iterator[str]:
    """Give a path under which `ssl` finds `data`, which stays in memory."""
    descriptor = os.memfd_create("bookie-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def openssl_cipher(name: str) -> str:
    """Return OpenSSL's name for the Java name of a TLS 1.2 cipher suite; other names pass unchanged.

    TLS 1.3 suites are not chosen one by one: OpenSSL's three are all sound.
    """
    found = re.fullmatch(r"TLS_(.+)_WITH_(.+)", name)
    if found is None:
        return name
    exchange, cipher = found.groups()
    cipher = re.sub(r"AES_(128|256)_(GCM|CCM)", r"AES\1_\2", cipher)
    cipher = re.sub(r"AES_(128|256)_CBC", r"AES\1", cipher)
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")


def certificate_of(subject: object) -> Certificate | None:
    """Return the identity in `getpeercert()`, which is None or empty when the peer showed none or was asked for
    none."""
    if not isinstance(subject, dict) or not subject:
        return None
    names: list[tuple[str, str]] = [pair for group in subject.get("subject", ()) for pair in group]
    common = [value for name, value in names if name == "commonName"]
    units = tuple(value for name, value in names if name == "organizationalUnitName")
    return Certificate(common_name=common[-1] if common else "", organizational_units=units)
