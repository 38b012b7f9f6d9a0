"""What a bookie knows, shows and tells of the ends of its certificates."""

import asyncio
import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

import tls_support
from bookie.ports.tls import TlsOptions
from bookie.runtime import certificates
from bookie.runtime.certificates import OWN, TRUSTED, CertificateWatch
from tls_support import Authority

HOUR = dt.timedelta(hours=1)
DAY = dt.timedelta(days=1)


@dataclass
class Clock:
    """The real time, and what a test adds to it: certificates are made now."""

    later: dt.timedelta = field(default_factory=dt.timedelta)

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC) + self.later


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def ends(watch: CertificateWatch) -> dict[tuple[str, str, str], float]:
    return {
        tuple(value for _, value in one.labels): one.value  # type: ignore[misc]
        for one in watch.samples()
        if one.name == "bookie_certificate_ends_seconds"
    }


def test_each_port_shows_when_what_it_shows_and_what_it_trusts_ends(tmp_path: Path) -> None:
    authority = Authority(left=9 * DAY)
    (tmp_path / "data").mkdir()
    (tmp_path / "store").mkdir()
    shown = authority.issue("bookie", left=3 * DAY)
    data = tls_support.options(tmp_path / "data", authority, shown)
    metadata = TlsOptions(trust_store=Authority("zookeeper").pem(tmp_path / "store"), named="zkTls")
    watch = CertificateWatch({"data": data, "metadata": metadata})

    found = ends(watch)

    assert set(found) == {
        ("data", OWN, "CN=bookie"),
        ("data", OWN, "CN=test authority"),
        ("data", TRUSTED, "CN=test authority"),
        ("metadata", TRUSTED, "CN=zookeeper"),
    }
    assert found["data", OWN, "CN=bookie"] == shown.certificate.not_valid_after_utc.timestamp()
    assert found["data", TRUSTED, "CN=test authority"] == authority.certificate.not_valid_after_utc.timestamp()
    of_renewal = {one.labels[2][1]: one.value for one in watch.samples() if one.name.endswith("renew_by_seconds")}
    assert found["data", OWN, "CN=bookie"] - of_renewal["CN=bookie"] == (4 * DAY / 10).total_seconds()
    assert not list(CertificateWatch({}).samples())
    assert not list(CertificateWatch({"metadata": TlsOptions()}).samples()), "who trusts the system's store"


def test_stores_of_java_are_read_as_well(tmp_path: Path) -> None:
    authority = Authority()
    store, password = authority.issue("bookie").pkcs12(tmp_path), tls_support.password_file(tmp_path)
    options = TlsOptions(key_store=store, key_store_type="PKCS12", key_password_file=password)

    assert set(ends(CertificateWatch({"data": options}))) == {
        ("data", OWN, "CN=bookie"),
        ("data", OWN, "CN=test authority"),
    }


def test_a_certificate_near_its_end_is_told_once_and_again_when_it_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, clock = Authority(left=90 * DAY), Clock()
    options = tls_support.options(tmp_path, authority, authority.issue("bookie", left=9 * DAY))
    watch = CertificateWatch({"data": options}, clock.now)

    watch.look()
    clock.later = 7 * DAY
    watch.look()
    assert watch.due() == ()
    assert not warnings(caplog)

    clock.later = 8 * DAY + HOUR
    watch.look()
    watch.look()
    (line,) = warnings(caplog)
    assert watch.due()[0] in line
    assert "port data" in line
    assert options.certificate in line
    assert "CN=bookie" in line
    assert ": it ends " in line
    assert line.endswith("replace the file")

    clock.later = 9 * DAY + HOUR
    watch.look()
    assert "it ended" in warnings(caplog)[1]

    authority.issue("bookie", left=90 * DAY).pem(tmp_path)
    assert watch.due() == ()
    clock.later = 90 * DAY - HOUR
    watch.look()
    assert len(warnings(caplog)) > 2, "a good one, and then its end"


def test_new_files_count_at_the_next_look_and_files_that_no_handshake_takes_do_not(tmp_path: Path) -> None:
    authority = Authority()
    options = tls_support.options(tmp_path, authority, authority.issue("bookie"))
    watch = CertificateWatch({"data": options})
    certificate, key = Path(options.certificate), Path(options.key_store)
    first = ends(watch)

    former = certificate.read_bytes()
    certificate.write_bytes(b"half of a certif")
    assert ends(watch) == first
    renewed = authority.issue("bookie", left=2 * DAY)
    certificate.write_bytes(renewed.certificate.public_bytes(serialization.Encoding.PEM))
    assert ends(watch) == first, "the key is another's: handshakes go on with the former"
    certificate.unlink()
    assert ends(watch) == first
    certificate.write_bytes(former)
    assert ends(watch) == first

    renewed.pem(tmp_path)
    assert key.exists()
    assert ends(watch)["data", OWN, "CN=bookie"] == renewed.certificate.not_valid_after_utc.timestamp()


def test_of_authorities_the_last_end_counts_and_one_that_takes_over_ends_the_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, former, later = Clock(), Authority("one", left=9 * DAY), Authority("two", left=90 * DAY)
    path = Path(former.pem(tmp_path))
    options = TlsOptions(trust_store=str(path), named="zkTls")
    watch = CertificateWatch({"metadata": options}, clock.now)

    clock.later = 9 * DAY - HOUR
    (sentence,) = watch.due()
    assert "the last to be trusted" in sentence
    assert str(path) in sentence
    assert sentence.endswith("add its successor")
    assert len(warnings(caplog)) == 1

    both = [one.certificate.public_bytes(serialization.Encoding.PEM) for one in (later, former)]
    path.write_bytes(b"".join(both))
    assert watch.due() == ()
    assert set(ends(watch)) == {("metadata", TRUSTED, "CN=one"), ("metadata", TRUSTED, "CN=two")}
    clock.later = 10 * DAY
    assert watch.due() == ()


def test_whoever_vouches_for_our_own_certificate_ends_it_and_its_renewal_under_its_name_counts(tmp_path: Path) -> None:
    clock, authority = Clock(), Authority(left=9 * DAY)
    options = tls_support.options(tmp_path, authority, authority.issue("bookie", left=90 * DAY))
    watch = CertificateWatch({"data": options}, clock.now)

    clock.later = 9 * DAY - HOUR
    own, _ = watch.due()
    assert "own certificate" in own
    assert "(CN=test authority)" in own

    renewed = Authority(left=90 * DAY)
    both = [one.certificate.public_bytes(serialization.Encoding.PEM) for one in (renewed, authority)]
    Path(options.trust_store).write_bytes(b"".join(both))
    assert watch.due() == ()
    assert ends(watch)["data", TRUSTED, "CN=test authority"] == renewed.certificate.not_valid_after_utc.timestamp()


def test_one_that_vouches_for_itself_is_one_certificate(tmp_path: Path) -> None:
    alone = Authority("alone")
    pem = alone.certificate.public_bytes(serialization.Encoding.PEM)
    material = certificates.Material(chain=pem, trusted=pem)

    found = certificates.lifetimes("data", TlsOptions(), material)

    assert [(one.role, one.name) for one in found] == [(OWN, "CN=alone"), (TRUSTED, "CN=alone")]


def test_a_bookie_that_nobody_dials_looks_all_the_same_until_it_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    options = tls_support.options(tmp_path, authority, authority.issue("bookie"))
    monkeypatch.setattr(certificates, "LOOK_S", 0.001)

    async def lives() -> None:
        looked, looks = asyncio.Event(), 0

        def now() -> dt.datetime:
            nonlocal looks
            looks += 1
            if looks == 3:
                looked.set()
            return dt.datetime.now(dt.UTC) + (2 * DAY if looks > 2 else 0 * DAY)

        async with CertificateWatch({"admin": options}, now).running():
            assert looks == 1, "before anything else"
            assert not warnings(caplog)
            async with asyncio.timeout(10):
                await looked.wait()
            assert "it ended" in warnings(caplog)[0]
        ended_after, later = looks, asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, later.set)
        await later.wait()
        assert looks == ended_after

    asyncio.run(lives())


def test_an_error_that_nobody_foresaw_ends_one_look_and_not_all_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "LOOK_S", 0.01)
    looks: list[int] = []
    told: list[object] = []

    async def story() -> None:
        enough = asyncio.Event()

        def now() -> dt.datetime:
            looks.append(1)
            if len(looks) == 2:
                raise OverflowError("of a clock")
            if len(looks) == 5:
                enough.set()
            return dt.datetime.now(dt.UTC)

        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        async with CertificateWatch({}, now).running(), asyncio.timeout(10):
            await enough.wait()

    asyncio.run(story())
    assert [str(error) for error in told] == ["of a clock"]
