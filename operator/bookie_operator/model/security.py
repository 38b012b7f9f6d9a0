"""spec.security: what protects the bookies' data port. By Secrets that pods mount; the operator reads none of them."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from bookie_operator.model import cel, rules
from bookie_operator.model.base import Model

Mode = Literal["Disabled", "Permissive", "Required"]
SecretName = Annotated[str, Field(min_length=1, max_length=253)]


class TlsSpec(Model):
    mode: Mode = Field(
        default="Disabled",
        description="Permissive: clients may start TLS, and bookies do so among themselves where they can. Required:"
        " nothing is served in plain. A running fleet goes from Disabled to Required, and back, by Permissive.",
    )
    secret_name: SecretName | None = Field(
        default=None,
        description="The Secret, in this namespace, with tls.crt, tls.key and ca.crt, as cert-manager makes it. The"
        " certificate is shown to clients and to other bookies. New contents are used without a restart. When absent,"
        " the operator makes and renews the certificates; clients find the authority in ConfigMap NAME-ca, as ca.crt.",
    )
    client_certificates: bool = Field(
        default=False, description="True: a client must show a certificate that ca.crt of secretName vouches for."
    )
    verify_host_names: bool = Field(
        default=False,
        description="True: a bookie wants the name of the bookie that it calls in its certificate, such as"
        " *.NAME-bookies.NAMESPACE.svc.cluster.local. Always so with certificates of the operator.",
    )

    @property
    def is_made_here(self) -> bool:
        """Whether the operator makes the certificates."""
        return self.mode != "Disabled" and self.secret_name is None


class AuthenticationSpec(Model):
    mode: Mode = Field(
        default="Disabled",
        description="Permissive: the bookies prove themselves to each other by SASL, and refuse nobody. Required: they"
        " serve only who knows the password of a user. A running fleet goes to Required, and back, by Permissive.",
    )
    secret_name: SecretName | None = Field(
        default=None,
        description="The Secret, in this namespace, with jaas.conf: section Bookie with the users"
        ' (user_NAME="PASSWORD"), section BookKeeper with username and password of the bookies themselves. New users'
        " count without a restart.",
    )


class SecuritySpec(Model):
    model_config = ConfigDict(json_schema_extra=cel.schema(rules.SECURITY))

    tls: TlsSpec = TlsSpec()
    authentication: AuthenticationSpec = AuthenticationSpec()
