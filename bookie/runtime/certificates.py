"""When the certificates end that a bookie shows, and those that it trusts: for its figures, its log and its report.

Whoever meets an ended certificate refuses it, and says so in a log of its own; the bookie alone could tell before. It
looks at the files (a `stat` each) whenever it is asked, and each LOOK_S also where nobody asks and nobody dials. Files
that no handshake would take are passed over, as handshakes do. Never refuses anything, never holds or logs a key.
"""

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bookie.base import errors
from bookie.ports.metrics import Sample
from bookie.ports.tls import TlsOptions
from bookie.runtime import keystore, text_file, tls
from bookie.runtime.keystore import Material, Validity

log = logging.getLogger(__name__)

# What is told a month before is told soon enough ten minutes later.
LOOK_S = 600.0
OWN, TRUSTED = "own", "trusted"


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Of one certificate. `port`: where the bookie shows or trusts it. `role`: OWN (also of those that vouch for it:
    the end of one ends it), or TRUSTED. `name`: its subject."""

    port: str
    role: str
    name: str
    file: str
    validity: Validity

    @property
    def ends(self) -> dt.datetime:
        return self.validity[1]


class CertificateWatch:
    """Follows the files of all ports of one bookie."""

    def __init__(
        self, ports: Mapping[str, TlsOptions], now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    ) -> None:
        self._ports = ports
        self._now = now
        self._stamps: dict[str, tuple[text_file.Stamp, ...]] = {}
        self._known: dict[str, tuple[Lifetime, ...]] = dict.fromkeys(ports, ())
        self._told: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> tuple[Lifetime, ...]:
        """Return what is known of all ports, after a look at files that have changed; warn of what is due, once."""
        for port, options in self._ports.items():
            stamps = tuple(text_file.stamp(path) for path in options.files)
            if stamps != self._stamps.get(port):
                self._stamps[port] = stamps
                # A handshake tells what is wrong with them, and goes on with the former ones.
                with contextlib.suppress(errors.BadInput):
                    material = keystore.load(options)
                    tls.make_context(options, material, is_server=False)
                    self._known[port] = lifetimes(port, options, material)
        known = tuple(one for found in self._known.values() for one in found)
        told = due(known, self._now())
        for sentence in told:
            if sentence not in self._told:
                log.warning("certificate to replace: %s", sentence)
        self._told = set(told)
        return known

    def due(self) -> tuple[str, ...]:
        """Return a sentence for each certificate that a person should replace now."""
        return due(self.look(), self._now())

    def samples(self) -> Iterator[Sample]:
        """Yield the figures: nothing of a port that has no certificate."""
        for one in self.look():
            labels = (("port", one.port), ("role", one.role), ("name", one.name))
            text = "When this certificate ends, or one that vouches for it (Unix time)."
            yield Sample("bookie_certificate_ends_seconds", "gauge", text, one.ends.timestamp(), labels)
            text = "From when on nobody will renew it but a person (Unix time)."
            renew_by = tls.renew_by(one.validity).timestamp()
            yield Sample("bookie_certificate_renew_by_seconds", "gauge", text, renew_by, labels)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look now and then each LOOK_S, on the running loop, until the context is left."""
        self._look_again(asyncio.get_running_loop())
        try:
            yield
        finally:
            assert self._timer is not None
            self._timer.cancel()

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(LOOK_S, self._look_again, loop)  # first: an error must not end all later looks
        self.look()


def lifetimes(port: str, options: TlsOptions, material: Material) -> tuple[Lifetime, ...]:
    """Return what is known of one port's material. Pure."""
    chain, trusted = keystore.certificates(material.chain), keystore.certificates(material.trusted)
    own_file = options.certificate or options.key_store
    return (
        *(_lifetime(port, OWN, one, own_file) for one in _vouching(chain, trusted)),
        *(_lifetime(port, TRUSTED, one, options.trust_store) for one in _newest(trusted).values()),
    )


def due(known: Iterable[Lifetime], now: dt.datetime) -> tuple[str, ...]:
    """Return a sentence for each of `known` that a person should replace now. Pure.

    Of what a port trusts only the last end counts: while one authority takes over from another, the former may end.
    """
    found = list(known)
    told = []
    for one in (one for one in found if one.role == OWN):
        if problem := tls.time_problem(one.validity, now):
            told.append(f"port {one.port}, own certificate {one.file} ({one.name}): {problem}: replace the file")
    for port in dict.fromkeys(one.port for one in found if one.role == TRUSTED):
        last = max((one for one in found if (one.port, one.role) == (port, TRUSTED)), key=lambda one: one.ends)
        if now >= tls.renew_by(last.validity):
            which = f"port {port}, the last to be trusted in {last.file} ({last.name})"
            told.append(f"{which}: {tls.time_problem(last.validity, now)}: add its successor")
    return tuple(told)


def _vouching(chain: list[Any], trusted: list[Any]) -> list[Any]:
    """Return our own certificate and those that vouch for it, up to the last one that we have."""
    found = chain[:1]
    issuers = _newest([one for one in (*chain[1:], *trusted) if one not in found])
    while found and (issuer := issuers.pop(found[-1].issuer, None)) is not None:
        found.append(issuer)
    return found


def _newest(certificates: list[Any]) -> dict[Any, Any]:
    """Return by its subject the certificate that ends last: a renewed authority often keeps its name."""
    return {one.subject: one for one in sorted(certificates, key=lambda one: one.not_valid_after_utc)}


def _lifetime(port: str, role: str, certificate: Any, file: str) -> Lifetime:
    validity = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return Lifetime(port, role, certificate.subject.rfc4514_string(), file, validity)
