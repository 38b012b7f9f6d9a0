"""`bookkeeper.client.*`: settings of the client library as options of a query.

Numbers and flags by the names of ClientOptions (`requestTimeoutMs`), encryption by the names of BookKeeper's own client
settings (`tlsTrustStore`), and our identity: `saslUser` with `saslPasswordFile`. The metadata store's security (SASL,
ACLs, TLS) is in a properties file, by a bookie's names: `metadataSettingsFile`. Secrets are in files, on the driver and
on every executor; only the names of the files travel between them.
"""

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

from bookie import connect
from bookie.base import errors
from bookie.base.secret import Secret
from bookie.client import ClientOptions
from bookie.ports.tls import TlsOptions
from pyspark_bookkeeper import option_values

PREFIX = "bookkeeper.client."
_PASSWORD_FILE = "sasl_password_file"
_METADATA_FILE = "metadata_settings_file"

# Name here -> field of TlsOptions.
_TLS = {
    "tlsKeyStore": "key_store",
    "tlsKeyStoreType": "key_store_type",
    "tlsCertificatePath": "certificate",
    "tlsKeyStorePasswordPath": "key_password_file",
    "tlsTrustStore": "trust_store",
    "tlsTrustStoreType": "trust_store_type",
    "tlsTrustStorePasswordPath": "trust_password_file",
    "tlsHostnameVerificationEnabled": "checks_host_name",
}
# Name here -> field of ClientOptions. bool before int: a bool is one, too.
_PLAIN = {
    "".join([field.name.split("_")[0], *map(str.capitalize, field.name.split("_")[1:])]): field.name
    for field in dataclasses.fields(ClientOptions)
    if isinstance(field.default, int)
}
_NAMES = {name.lower(): name for name in (*_PLAIN, *_TLS, "saslUser", "saslPasswordFile", "metadataSettingsFile")}


def parse(given: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    """Return the settings in `given`, whose names have no prefix and any case. Raises ValueError for the first bad
    one."""
    settings: dict[str, Any] = {}
    tls: dict[str, Any] = {}
    for name, text in given.items():
        known = _NAMES.get(name.lower().replace("_", ""))
        if known is None:
            raise ValueError(f"{PREFIX}{name} is no setting{option_values.nearest(name, _NAMES.values())}")
        try:
            if known in _TLS:
                field = _TLS[known]
                tls[field] = option_values.flag(text) if field == "checks_host_name" else option_values.text(text)
            elif known in _PLAIN:
                is_flag = isinstance(getattr(_DEFAULTS, _PLAIN[known]), bool)
                settings[_PLAIN[known]] = option_values.flag(text) if is_flag else option_values.number(text)
            elif known == "metadataSettingsFile":
                settings[_METADATA_FILE] = option_values.text(text)
            else:
                settings["sasl_user" if known == "saslUser" else _PASSWORD_FILE] = option_values.text(text)
        except ValueError as error:
            raise ValueError(f"{PREFIX}{known}: {error}") from None
    if ("sasl_user" in settings) != (_PASSWORD_FILE in settings):
        raise ValueError(f"{PREFIX}saslUser and {PREFIX}saslPasswordFile: give both or neither")
    if tls:
        try:
            settings["tls"] = TlsOptions(**tls)
        except errors.BadInput as error:
            raise ValueError(str(error)) from None
    return tuple(sorted(settings.items()))


_DEFAULTS = ClientOptions("zk://127.0.0.1/ledgers")


def check(uri: str, settings: tuple[tuple[str, Any], ...]) -> None:
    """Raise BadInput for what the client library refuses, by the names of the query's options; read no file."""
    try:
        ClientOptions(uri, **{name: value for name, value in settings if name not in (_PASSWORD_FILE, _METADATA_FILE)})
    except errors.BadInput as error:
        said = str(error)
        for name, field in _PLAIN.items():
            said = re.sub(rf"\b{field}\b", f"{PREFIX}{name}", said)
        raise errors.BadInput(said.removeprefix("client options: ")) from None


def client_options(settings: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return the settings as fields of ClientOptions, with the secrets read. Raises BadInput for a file that cannot be
    read here."""
    options = dict(settings)
    path = options.pop(_PASSWORD_FILE, None)
    if path is not None:
        options["sasl_password"] = Secret(read_secret(path, f"{PREFIX}saslPasswordFile").decode())
    path = options.pop(_METADATA_FILE, None)
    if path is not None:
        options["metadata_security"] = connect.metadata_security(path)
    return options


def shown_path(path: str) -> str:
    """Return `path` for an error message, unless it may be the secret itself, given in place of its file's name."""
    if os.path.isabs(path) and os.path.isdir(os.path.dirname(path)):
        return path
    return "the file that it names (not shown, since it may be the password itself; name a file by its whole path)"


def read_secret(path: str, option: str) -> bytes:
    """Return the content of a file, without the line end that editors leave. Raises BadInput, which never shows the
    content."""
    try:
        content = connect.read_file(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise errors.BadInput(f"{option}: {shown_path(path)} cannot be read here: {reason}") from None
    except ValueError:  # a zero byte, half a character
        raise errors.BadInput(f"{option}: {shown_path(path)} is no name of a file") from None
    return content.removesuffix(b"\n").removesuffix(b"\r")
