"""Gives the meaning here of BookKeeper's class names, by which Java's settings say how clients prove who they are.

Any other class is refused: a bookie that should ask for a proof and does not would be worse than one that does not
start.
"""

from collections.abc import Mapping

from bookie.base.errors import BadInput
from bookie.settings.values import Settings

_TLS = "org.apache.bookkeeper.tls.TLSContextFactory"
_CERTIFICATE = "org.apache.bookkeeper.tls.BookieAuthZFactory"
_SASL = "org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory"
_SASL_CLIENT = "org.apache.bookkeeper.sasl.SASLClientProviderFactory"
# Of each setting, what its class names mean; "" is Java's default.
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "tlsProviderFactoryClass": {"": "", _TLS: "tls"},
    "bookieAuthProviderFactoryClass": {"": "none", _CERTIFICATE: "certificate", _SASL: "sasl"},
    "clientAuthProviderFactoryClass": {"": "", _SASL_CLIENT: "sasl"},
}


def meaning(settings: Settings, key: str) -> str:
    """Return what the class named by `key` means here. Raises BadInput."""
    text, classes = settings.text(key).strip(), MEANINGS[key]
    if text not in classes:
        known = " or ".join(name for name in classes if name)
        raise BadInput(
            f"{key} is {text} ({settings.values[key].origin}), which is a class of somebody's own: this bookie knows"
            f" {known}, and does not start without the protection that was asked for"
        )
    return classes[text]
