"""Who may use the data port: the proof that a bookie requires, and the state of a connection before it has given one.

    none          everybody; AUTH is answered "AuthDisabledPlugin", as Java does
    certificate   whose TLS certificate has an authorized role or name (Java: BookieAuthZFactory)
    sasl          who knows a password, by DIGEST-MD5 (Java: SASLBookieAuthProviderFactory)

A new provider is an `Authentication`: its plugin name on the wire, and one `Exchange` per connection. Must never let a
request through to the processor before the proof; nor log a password or a token. Rules: spec/wire.md#W38 to W41.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.ports import World
from bookie.ports.entropy import Entropy
from bookie.ports.tls import Certificate, Tls, TlsOptions
from bookie.server.wrong_passwords import WrongPasswords
from bookie.wire import sasl

PROVIDERS = ("none", "certificate", "sasl")
# SaslConstants.JAAS_CLIENT_ALLOWED_IDS_DEFAULT.
ALLOWED_IDS = ".*bookkeeper.*"
_NONCE_SIZE = 24


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """The data port's security. Without `tls`, START_TLS is answered EBADREQ, as Java does.

    `needs_tls`: nothing is served in plain. `authorized_roles`: Java's authorizedRoles, the first role after "0:" in a
    unit of the certificate. `authorized_names`: its common names. `users`: passwords by name, for sasl. `peer_*`: how
    this bookie itself speaks to the others, when it gets back what it lost.
    """

    tls: TlsOptions | None = None
    needs_tls: bool = False
    provider: str = "none"
    authorized_roles: tuple[str, ...] = ()
    authorized_names: tuple[str, ...] = ()
    users: Mapping[str, Secret] = field(default_factory=dict)
    allowed_ids: str = ALLOWED_IDS
    peer_tls: TlsOptions | None = None
    peer_user: str = ""
    peer_password: Secret = Secret("")

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise errors.BadInput("security: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        if self.provider not in PROVIDERS:
            yield f"provider {self.provider!r} is not known: use one of {', '.join(PROVIDERS)}"
        if self.needs_tls and self.tls is None:
            yield "TLS is required, but has no key: set tlsProviderFactoryClass and tlsKeyStore, or tlsRequired=false"
        if self.provider == "certificate":
            if self.tls is None or not self.tls.needs_client_certificate:
                yield "clients that are known by their certificates must show one: set tlsClientAuthentication=true"
            if not self.authorized_roles and not self.authorized_names:
                yield "nobody is authorized: set authorizedRoles or authorizedNames"
        if self.provider == "sasl" and not self.users:
            yield 'sasl without users: set saslJaasFile to a file with a section Bookie { ... user_NAME="PASSWORD"; }'
        try:
            re.compile(self.allowed_ids)
        except re.error as error:
            yield f"saslJaasClientAllowedIds {self.allowed_ids!r} is no pattern: {error}"


class Exchange(Protocol):
    """One connection's proof by AUTH messages."""

    def answer(self, payload: bytes) -> bytes:
        """Return the answer to the client's next message. Raises Unauthorized: then the connection is closed."""
        ...

    @property
    def user(self) -> str | None:
        """The name of the client, once it has proven it."""
        ...


class Authentication(Protocol):
    """One way to prove an identity."""

    plugin: str  # AuthMessage.authPluginName
    needs_certificate: bool  # one that does not suffice is worth a line in the log

    def begin(self) -> Exchange: ...

    def of_certificate(self, certificate: Certificate | None) -> str | None:
        """Return the client's name when the TLS handshake alone proves it; None when it does not."""
        ...


class ByPassword:
    """SASL DIGEST-MD5."""

    plugin = sasl.PLUGIN
    needs_certificate = False

    def __init__(self, users: Mapping[str, Secret], allowed_ids: str, entropy: Entropy) -> None:
        self._users = users
        self._allowed_ids = re.compile(allowed_ids)
        self._entropy = entropy

    def begin(self) -> Exchange:
        return sasl.DigestServer(self._users, self._allowed_ids, self._entropy.token(_NONCE_SIZE).hex())

    def of_certificate(self, certificate: Certificate | None) -> str | None:
        return None


class ByCertificate:
    """Proves identity by the role or name in the client's certificate, which TLS has verified.
    Such clients send no AUTH."""

    plugin = "BookieAuthZFactory"
    needs_certificate = True

    def __init__(self, roles: tuple[str, ...], names: tuple[str, ...]) -> None:
        self._roles = roles
        self._names = names

    def begin(self) -> Exchange:
        return _NoExchange()

    def of_certificate(self, certificate: Certificate | None) -> str | None:
        if certificate is None:
            return None
        role = role_of(certificate)
        if role is not None and role in self._roles:
            return role
        return certificate.common_name if certificate.common_name in self._names else None


class _NoExchange:
    user = None

    def answer(self, payload: bytes) -> bytes:
        raise errors.Unauthorized("this bookie knows clients by their certificates, not by AUTH messages")


def role_of(certificate: Certificate) -> str | None:
    """Return the first role in the units:
    "0:ROLE,ROLE;1:CLUSTER" (Java's CertUtils.getRolesFromOU looks at one unit, we look at all)."""
    for unit in certificate.organizational_units:
        for part in unit.split(";"):
            code, separator, names = part.partition(":")
            if separator and code.strip() == "0":
                return names.split(",")[0].strip() or None
    return None


@dataclass(frozen=True, slots=True)
class Security:
    """The options, loaded: all connections of one bookie share them."""

    tls: Tls | None = None
    needs_tls: bool = False
    authentication: Authentication | None = None
    wrong_passwords: WrongPasswords = field(default_factory=WrongPasswords)

    @property
    def is_open(self) -> bool:
        """Return True when a connection may do everything from its first byte."""
        return self.authentication is None and not self.needs_tls


def load(options: SecurityOptions, world: World) -> Security:
    """Load the keys and the provider that `options` name. Raises BadInput when the keys cannot be used."""
    tls = None if options.tls is None else world.network.load_tls(options.tls, is_server=True)
    authentication: Authentication | None = None
    if options.provider == "certificate":
        authentication = ByCertificate(options.authorized_roles, options.authorized_names)
    elif options.provider == "sasl":
        authentication = ByPassword(options.users, options.allowed_ids, world.entropy)
    return Security(tls, options.needs_tls, authentication)
