"""Reads the settings of the metadata store's security, and the files that they name.

Names are Java's where Java has settings; ZooKeeper's system properties (`zookeeper.client.secure`, ...) are aliases of
our settings.
"""

import os

from bookie.base.errors import BadInput
from bookie.base.secret import Secret
from bookie.ports.metadata_store import MetadataSecurity
from bookie.ports.tls import TlsOptions
from bookie.runtime import jaas, properties, text_file
from bookie.settings.values import Settings, default_values, take

# ZooKeeper tells a store's type by its name (FileKeyStoreLoaderBuilderProvider); what it cannot tell is PEM here.
_TYPES = {".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12"}


def security(settings: Settings) -> MetadataSecurity:
    """Return the security of the metadata store. Raises BadInput naming the setting or the file."""
    user, password = _sasl(settings)
    return MetadataSecurity(
        sasl_user=user,
        sasl_password=password,
        digest=_digest(settings),
        creator_acl=settings.is_true("zkEnableSecurity"),
        tls=_tls(settings) if settings.is_true("zkTlsEnabled") else None,
    )


def read(path: str) -> MetadataSecurity:
    """Read a properties file, for a program without the settings of a bookie. A bookie's own file will do: settings
    that are not about the metadata store are ignored. Raises BadInput."""
    values = default_values()
    take(values, properties.read(path))
    settings = Settings(values, {})
    if problems := settings.type_problems():
        raise BadInput("; ".join(problems))
    return security(settings)


def _sasl(settings: Settings) -> tuple[str, Secret]:
    """Return user and password for SASL. As in Java, a process that has the JAAS section uses it, whatever else is
    set."""
    key, section = "zkJaasFile" if settings.text("zkJaasFile") else "saslJaasFile", settings.text("zkJaasSectionName")
    path = settings.text(key)
    wanted = bool(settings.text("zkJaasFile")) or not settings.values["zkJaasSectionName"].is_default
    if not path:
        if wanted:
            raise BadInput("zkJaasSectionName needs zkJaasFile or saslJaasFile: set it to the file with that section")
        return "", Secret("")
    try:
        options = jaas.read_section(path, section, must_exist=wanted)
    except BadInput as error:
        raise BadInput(f"{key}: {error}") from None
    if not options and not wanted:
        return "", Secret("")
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise BadInput(
            f"{path}: section {section} has no {' and no '.join(missing)} (of SASL, DIGEST-MD5 alone is known here)"
        )
    return options["username"].reveal(), options["password"]


def _digest(settings: Settings) -> Secret:
    path = settings.text("zkDigestFile")
    if not path:
        return Secret("")
    text = text_file.read(path, "zkDigestFile: ").strip()
    if not text.partition(":")[2]:
        raise BadInput(f"zkDigestFile: {path} does not hold USER:PASSWORD")
    return Secret(text)


def _tls(settings: Settings) -> TlsOptions:
    key_store, trust_store = settings.text("zkTlsKeyStore"), settings.text("zkTlsTrustStore")
    return TlsOptions(
        key_store=key_store,
        key_store_type=settings.text("zkTlsKeyStoreType") or _type_of(key_store),
        certificate=settings.text("zkTlsCertificatePath") or key_store,  # ZooKeeper's PEM store has both
        key_password_file=settings.text("zkTlsKeyStorePasswordPath"),
        trust_store=trust_store,
        trust_store_type=settings.text("zkTlsTrustStoreType") or _type_of(trust_store),
        trust_password_file=settings.text("zkTlsTrustStorePasswordPath"),
        checks_host_name=settings.is_true("zkTlsHostnameVerificationEnabled"),
        named="zkTls",
    )


def _type_of(path: str) -> str:
    return _TYPES.get(os.path.splitext(path)[1].lower(), "PEM")
