"""Turns the settings of TLS and authentication into options.

Java's settings name classes; the classes that BookKeeper ships have their equals here (`settings.classes`). Settings
that would protect nothing are refused: a bookie that should ask for a proof and does not would be worse than one that
does not start.
"""

from collections.abc import Mapping
from typing import Any

from bookie.base.errors import BadInput
from bookie.base.secret import Secret
from bookie.metadata.loss_signature import SigningKey
from bookie.ports.tls import PROTOCOLS, TlsOptions
from bookie.runtime import jaas, loss_keys
from bookie.server.security import SecurityOptions
from bookie.settings import classes
from bookie.settings.values import Settings


def security_options(settings: Settings) -> SecurityOptions:
    """Return the bookie's security options. Raises BadInput that names the setting, or the file from which users cannot
    be read."""
    provider = classes.meaning(settings, "bookieAuthProviderFactoryClass")
    has_tls = classes.meaning(settings, "tlsProviderFactoryClass") != ""
    proves_itself = classes.meaning(settings, "clientAuthProviderFactoryClass") != ""
    user, password = _own_password(settings) if proves_itself else ("", Secret(""))
    return SecurityOptions(
        tls=_tls(settings, is_server=True) if has_tls else None,
        needs_tls=settings.is_true("tlsRequired"),
        provider=provider,
        authorized_roles=settings.names("authorizedRoles"),
        authorized_names=settings.names("authorizedNames"),
        users=_users(settings) if provider == "sasl" else {},
        allowed_ids=settings.text("saslJaasClientAllowedIds"),
        peer_tls=_tls(settings, is_server=False) if has_tls else None,
        peer_user=user,
        peer_password=password,
    )


def client_options(settings: Settings) -> dict[str, Any]:
    """Return fields of ClientOptions with which a command connects to bookies as a bookie with these settings would."""
    options = security_options(settings)
    return {"tls": options.peer_tls, "sasl_user": options.peer_user, "sasl_password": options.peer_password}


def loss_key(settings: Settings) -> SigningKey | None:
    """Return the key that signs notes of accepted losses; None where none is set. Raises BadInput that names the
    setting and the file."""
    value = settings.values["lossSigningKeyFile"]
    return loss_keys.signing_key(value.text, f"lossSigningKeyFile ({value.origin})") if value.text else None


def _tls(settings: Settings, *, is_server: bool) -> TlsOptions:
    """Return the TLS options. Both sides use the same files, as in Java: a bookie shows other bookies the certificate
    that it shows clients."""
    needs_client_certificate = settings.is_true("tlsClientAuthentication")
    shows_own = is_server or needs_client_certificate
    return TlsOptions(
        key_store=settings.text("tlsKeyStore") if shows_own else "",
        key_store_type=settings.text("tlsKeyStoreType"),
        certificate=settings.text("tlsCertificatePath") if shows_own else "",
        key_password_file=settings.text("tlsKeyStorePasswordPath") if shows_own else "",
        trust_store=settings.text("tlsTrustStore"),
        trust_store_type=settings.text("tlsTrustStoreType"),
        trust_password_file=settings.text("tlsTrustStorePasswordPath"),
        needs_client_certificate=is_server and needs_client_certificate,
        checks_host_name=settings.is_true("tlsHostnameVerificationEnabled"),
        may_be_plain=not is_server and settings.is_true("tlsPeersMayBePlain"),
        protocols=_protocols(settings.names("tlsEnabledProtocols")),
        ciphers=settings.names("tlsEnabledCipherSuites"),
    )


def _protocols(asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the versions of `asked` that this bookie speaks; when it speaks none, all of `asked`, which is then
    refused."""
    return tuple(name for name in PROTOCOLS if name in asked) or asked


def _users(settings: Settings) -> Mapping[str, Secret]:
    path = _jaas_file(settings)
    try:
        return jaas.Users(path, settings.text("saslJaasBookieSectionName"))
    except BadInput as error:
        raise BadInput(f"saslJaasFile {error}") from None


def _own_password(settings: Settings) -> tuple[str, Secret]:
    options = _section(settings, "saslJaasClientSectionName")
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        section = settings.text("saslJaasClientSectionName")
        raise BadInput(f"{settings.text('saslJaasFile')}: section {section} has no {' and no '.join(missing)}")
    return options["username"].reveal(), options["password"]


def _jaas_file(settings: Settings) -> str:
    path = settings.text("saslJaasFile")
    if not path:
        raise BadInput(
            "SASL needs a JAAS file: set saslJaasFile to the file that -Djava.security.auth.login.config names in Java"
        )
    return path


def _section(settings: Settings, key: str) -> dict[str, Secret]:
    path = _jaas_file(settings)
    try:
        return jaas.read_section(path, settings.text(key))
    except BadInput as error:
        raise BadInput(f"saslJaasFile {error}") from None
