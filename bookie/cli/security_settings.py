"""What the settings of TLS and authentication mean: Java says with class names what it wants, and so do its files.

The classes that BookKeeper ships have their equals here; any other is refused, as are settings that would protect
nothing: a bookie that should ask for a proof and does not would be worse than one that does not start.
"""

from collections.abc import Mapping
from typing import Any

from bookie.base.errors import BadInput
from bookie.base.secret import Secret
from bookie.cli.settings import Settings
from bookie.ports.tls import TlsOptions
from bookie.runtime import jaas
from bookie.server.security import SecurityOptions

_TLS = "org.apache.bookkeeper.tls.TLSContextFactory"
_CERTIFICATE = "org.apache.bookkeeper.tls.BookieAuthZFactory"
_SASL = "org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory"
_SASL_CLIENT = "org.apache.bookkeeper.sasl.SASLClientProviderFactory"
# Of each class name, the provider here; "" is Java's default.
PROVIDERS: Mapping[str, str] = {"": "none", _CERTIFICATE: "certificate", _SASL: "sasl"}
_USER_PREFIX = "user_"


def security_options(settings: Settings) -> SecurityOptions:
    """Raises BadInput naming the setting, and BadInput naming the file when users cannot be read from it."""
    provider = _known(settings, "bookieAuthProviderFactoryClass", PROVIDERS)
    has_tls = _known(settings, "tlsProviderFactoryClass", {"": "", _TLS: "tls"}) != ""
    proves_itself = _known(settings, "clientAuthProviderFactoryClass", {"": "", _SASL_CLIENT: "sasl"}) != ""
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
    """How a command reaches bookies: as a bookie with these settings would. Fields of ClientOptions."""
    options = security_options(settings)
    return {"tls": options.peer_tls, "sasl_user": options.peer_user, "sasl_password": options.peer_password}


def _known(settings: Settings, key: str, classes: Mapping[str, str]) -> str:
    text = settings.text(key).strip()
    if text not in classes:
        known = " or ".join(name for name in classes if name)
        raise BadInput(
            f"{key} is {text} ({settings.values[key].origin}), which is a class of somebody's own: this bookie knows"
            f" {known}, and does not start without the protection that was asked for"
        )
    return classes[text]


def _tls(settings: Settings, *, is_server: bool) -> TlsOptions:
    """The same files for both sides, as in Java: a bookie shows other bookies the certificate it shows clients."""
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
        protocols=settings.names("tlsEnabledProtocols"),
        ciphers=settings.names("tlsEnabledCipherSuites"),
    )


def _users(settings: Settings) -> dict[str, Secret]:
    options = _section(settings, "saslJaasBookieSectionName")
    return {
        name.removeprefix(_USER_PREFIX): password for name, password in options.items() if name.startswith(_USER_PREFIX)
    }


def _own_password(settings: Settings) -> tuple[str, Secret]:
    options = _section(settings, "saslJaasClientSectionName")
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        section = settings.text("saslJaasClientSectionName")
        raise BadInput(f"{settings.text('saslJaasFile')}: section {section} has no {' and no '.join(missing)}")
    return options["username"].reveal(), options["password"]


def _section(settings: Settings, key: str) -> dict[str, Secret]:
    path = settings.text("saslJaasFile")
    if not path:
        raise BadInput(
            "SASL without saslJaasFile: name the file that Java is told by -Djava.security.auth.login.config"
        )
    try:
        return jaas.read_section(path, settings.text(key))
    except BadInput as error:
        raise BadInput(f"saslJaasFile {error}") from None
