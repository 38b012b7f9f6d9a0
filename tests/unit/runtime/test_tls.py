"""Names of cipher suites, and subjects of certificates, as OpenSSL and Java write them."""

import datetime as dt
import ssl
from pathlib import Path

import pytest

import tls_support
from bookie.base import errors
from bookie.ports.tls import Certificate, TlsOptions
from bookie.runtime import tls
from bookie.runtime.keystore import Material
from tls_support import Authority


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_java_s_names_of_cipher_suites_are_understood(java: str, openssl: str) -> None:
    assert tls.openssl_cipher(java) == openssl
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl)  # OpenSSL knows it


def test_suites_of_tls_1_3_alone_shut_out_older_versions() -> None:
    # Java's file lists them beside the others; OpenSSL does not choose among them, and refuses a list of nothing else.
    def context(*ciphers: str) -> ssl.SSLContext:
        return tls.make_context(TlsOptions(ciphers=ciphers), Material(), is_server=False)

    assert context("TLS_AES_256_GCM_SHA384").minimum_version is ssl.TLSVersion.TLSv1_3
    mixed = context("TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert mixed.minimum_version is ssl.TLSVersion.TLSv1_2
    old = [cipher["name"] for cipher in mixed.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert old == ["ECDHE-RSA-AES128-GCM-SHA256"]


def test_both_sides_speak_every_version_that_is_enabled() -> None:
    def versions(*enabled: str) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
        context = tls.make_context(TlsOptions(protocols=enabled), Material(), is_server=False)
        return context.minimum_version, context.maximum_version

    old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert versions("TLSv1.2", "TLSv1.3") == versions("TLSv1.3", "TLSv1.2") == (old, new)
    assert versions("TLSv1.2") == (old, old)
    assert versions("TLSv1.3") == (new, new)


def test_a_subject_gives_its_name_and_units() -> None:
    subject = ((("organizationalUnitName", "0:writer"),), (("organizationalUnitName", "x"), ("commonName", "me")))

    assert tls.certificate_of({"subject": subject}) == Certificate("me", ("0:writer", "x"))
    two = ((("commonName", "of the company"),), (("commonName", "me"),))
    assert tls.certificate_of({"subject": two}) == Certificate("me"), "the last one is the most special"
    assert tls.certificate_of({"subject": ()}) == Certificate("")
    assert tls.certificate_of({}) is None
    assert tls.certificate_of(None) is None


@pytest.mark.parametrize(
    ("hours", "told"),
    [(-1, "valid from"), (0, ""), (89, ""), (91, "it ends 2026-01-05"), (100, "it ends"), (101, "it ended")],
)
def test_a_certificate_is_told_of_in_its_last_tenth_and_out_of_its_time(hours: int, told: str) -> None:
    begins = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    problem = tls.time_problem((begins, begins + dt.timedelta(hours=100)), begins + dt.timedelta(hours=hours))

    assert told in problem
    assert bool(told) == bool(problem)


@pytest.mark.parametrize(("days", "soon_days"), [(1, 0.1), (90, 9), (365, 30), (3650, 30)])
def test_a_certificate_is_to_be_renewed_in_its_last_tenth_a_month_at_most(days: float, soon_days: float) -> None:
    begins = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    ends = begins + dt.timedelta(days=days)

    soon = tls.renew_by((begins, ends))

    assert ends - soon == dt.timedelta(days=soon_days)
    assert tls.time_problem((begins, ends), soon)
    assert not tls.time_problem((begins, ends), soon - dt.timedelta(seconds=1))


def test_a_client_s_certificate_that_ended_is_told_once_and_again_when_another_one_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    ended = authority.issue("bookie", left=-dt.timedelta(hours=2))
    options = tls_support.options(tmp_path, authority, ended)

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    side = tls.SslTls(options, is_server=False)
    assert len(told()) == 1, "before anybody dials"
    side.context()
    assert len(told()) == 1
    assert options.certificate in told()[0]
    assert "it ended" in told()[0]

    authority.issue("bookie").pem(tmp_path)
    side.context()
    assert len(told()) == 1, "the new one is good"

    other = authority.issue("bookie", left=-dt.timedelta(hours=1))
    other.pem(tmp_path)
    side.context()
    side.context()
    assert len(told()) == 2

    authority.issue("bookie").pem(tmp_path)
    side.context()
    other.pem(tmp_path)
    side.context()
    assert len(told()) == 3, "it is back, after a good one"


def test_files_that_were_taken_are_not_loaded_again_and_bad_ones_that_come_back_are_told_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubernetes puts the former files back as they were, to the nanosecond."""
    caplog.set_level("INFO")
    authority = Authority()
    options = tls_support.options(tmp_path, authority, authority.issue("bookie"))
    certificate, aside = Path(options.certificate), tmp_path / "aside"
    server = tls.SslTls(options, is_server=True)
    first = server.context()

    authority.issue("bookie").pem(tmp_path)
    second = server.context()
    assert second is not first
    assert server.context() is second
    good = certificate.read_bytes()
    certificate.write_bytes(b"half of a certif")
    assert server.context() is second
    assert server.context() is second
    certificate.rename(aside)
    certificate.write_bytes(good)
    third = server.context()
    assert server.context() is third
    aside.replace(certificate)
    assert server.context() is third
    assert server.context() is third

    told = [record.levelname for record in caplog.records]
    assert told == ["INFO", "WARNING", "INFO", "WARNING"], "each change once"


def test_a_client_trusts_the_authorities_that_it_was_given_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, of_the_system = tmp_path / "given", tmp_path / "system"
    given.mkdir()
    of_the_system.mkdir()
    authority = Authority()
    monkeypatch.setenv("SSL_CERT_FILE", Authority("everybody's").pem(of_the_system))

    def trusted(options: TlsOptions) -> list[str]:
        found = tls.SslTls(options, is_server=False).context().get_ca_certs()
        return [str(certificate["subject"]) for certificate in found]

    (only,) = trusted(tls_support.options(given, authority, None))
    assert "test authority" in only
    (of_all,) = trusted(TlsOptions())
    assert "everybody's" in of_all


def test_a_bookie_lets_nobody_resume_a_session_or_agree_anew(tmp_path: Path) -> None:
    """Whose certificate was taken away since would be let in by an old session."""
    authority = Authority()
    context = tls.SslTls(tls_support.options(tmp_path, authority, authority.issue("bookie")), is_server=True).context()

    assert context.num_tickets == 0
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_a_key_of_another_certificate_is_called_that(tmp_path: Path) -> None:
    authority = Authority()
    key, _ = authority.issue("one").pem(tmp_path)
    _, certificate = authority.issue("other").pem(tmp_path)

    with pytest.raises(errors.BadInput, match="the key is not that of the certificate"):
        tls.SslTls(TlsOptions(key_store=key, certificate=certificate), is_server=True)
