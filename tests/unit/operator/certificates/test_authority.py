"""Authorities of admin ports: each vouches for its own cluster only, and is renewed without a gap."""

import base64
import contextlib
import datetime as dt
import random
import re
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import verification
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base.errors import BadInput
from bookie_operator.certificates import authority as authorities
from bookie_operator.certificates import leaf
from bookie_operator.certificates.authority import Authority

START = dt.datetime(2027, 1, 15, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
A, B = "7c2f-uid-of-a", "91d0-uid-of-b"


def token(seed: int = 1) -> authorities.Token:
    return random.Random(seed).randbytes


def authority(uid: str = A, now: dt.datetime = START, seed: int = 1) -> Authority:
    return authorities.renewed(None, f"admin {uid}", now, token(seed))


def trusts_server(bundle: bytes, certificate: bytes, uid: str, now: dt.datetime) -> bool:
    """As an operator judges a bookie."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    judge = verification.PolicyBuilder().store(store).time(now)
    try:
        judge.build_server_verifier(x509.DNSName(leaf.server_name(uid))).verify(
            x509.load_pem_x509_certificate(certificate), []
        )
    except verification.VerificationError:
        return False
    return True


def trusts_client(bundle: bytes, certificate: bytes, now: dt.datetime) -> bool:
    """As a bookie judges an operator, names apart."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    judge = verification.PolicyBuilder().store(store).time(now)
    try:
        judge.build_client_verifier().verify(x509.load_pem_x509_certificate(certificate), [])
    except verification.VerificationError:
        return False
    return True


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_certificate_of_one_cluster_never_opens_another(seed: int, other_seed: int) -> None:
    ours, theirs = authority(A, seed=2 * seed), authority(B, seed=2 * other_seed + 1)
    server = leaf.server(ours, A, START, token(seed + 7)).certificate
    client = leaf.client(ours, leaf.operator_name(A, "ns"), "process", START, token(seed + 9)).certificate

    assert trusts_server(ours.bundle(), server, A, START)
    assert trusts_client(ours.bundle(), client, START)
    assert not trusts_server(theirs.bundle(), server, A, START)
    assert not trusts_server(ours.bundle(), server, B, START)
    assert not trusts_client(theirs.bundle(), client, START)


def test_a_server_s_certificate_is_no_client_s_and_the_other_way_round() -> None:
    ours = authority()
    server = leaf.server(ours, A, START, token()).certificate
    client = leaf.client(ours, leaf.operator_name(A, "ns"), "process", START, token()).certificate

    assert not trusts_client(ours.bundle(), server, START)
    assert not trusts_server(ours.bundle(), client, A, START)


def test_the_same_bytes_make_the_same_keys_and_other_bytes_others() -> None:
    def numbers(seed: int) -> int:
        return authority(seed=seed).generations[0].key.private_numbers().private_value

    assert numbers(1) == numbers(1)
    assert len({numbers(seed) for seed in range(20)}) == 20


def years(step: dt.timedelta) -> Iterator[tuple[dt.datetime, Authority]]:
    now, ours = START, authority()
    draw = token(3)
    while now < START + 4 * 365 * DAY:
        ours = authorities.renewed(ours, "admin", now, draw)
        yield now, ours
        now += step


def test_for_years_whoever_looked_within_a_week_and_whoever_looks_now_understand_each_other() -> None:
    past: list[tuple[dt.datetime, Authority]] = []
    generations = set()
    for now, ours in years(DAY):
        past = [(at, one) for at, one in past if now - at <= 7 * DAY] + [(now, ours)]
        generations.add(ours.signing(now).certificate.serial_number)
        if (now - START).days % 9 == 0:
            _, old = past[0]
            fresh = leaf.server(ours, A, now, token(5)).certificate
            stale = leaf.server(old, A, past[0][0], token(6)).certificate
            assert trusts_server(old.bundle(), fresh, A, now), now
            assert trusts_server(ours.bundle(), stale, A, now), now
        assert len(ours.generations) <= 2

    assert len(generations) >= 4


def test_an_operator_that_was_away_for_years_begins_anew_at_once() -> None:
    ours = authority()
    later = START + 3 * 365 * DAY

    fresh = authorities.renewed(ours, "admin", later, token(2))

    assert len(fresh.generations) == 1
    certificate = leaf.server(fresh, A, later, token(4)).certificate
    assert trusts_server(fresh.bundle(), certificate, A, later)
    assert not trusts_server(ours.bundle(), certificate, A, later)


def test_an_authority_of_the_future_is_dropped_when_the_clock_is_right_again() -> None:
    wrong = authority(now=START + 400 * DAY)

    right = authorities.renewed(wrong, "admin", START, token(2))

    assert trusts_server(right.bundle(), leaf.server(right, A, START, token(4)).certificate, A, START)


def test_nothing_due_changes_nothing() -> None:
    ours = authority()

    assert authorities.renewed(ours, "admin", START + 200 * DAY, token(2)) is ours


@pytest.mark.parametrize("away", [dt.timedelta(hours=1), 11 * DAY, 29 * DAY, 31 * DAY, 240 * DAY, 252 * DAY, 361 * DAY])
def test_a_server_s_certificate_is_renewed_before_it_ends_and_then_left_alone(away: dt.timedelta) -> None:
    ours = authority()
    made = first = leaf.server(ours, A, START, token())
    now = START + away
    ours = authorities.renewed(ours, "admin", now, token(2))

    if leaf.is_due(first.certificate, first.key, ours, now, leaf.SERVER):
        made = leaf.server(ours, A, now, token(8))

    assert trusts_server(ours.bundle(), made.certificate, A, now)
    assert (made == first) == (away < 10 * DAY)
    assert not leaf.is_due(made.certificate, made.key, ours, now, leaf.SERVER)


def test_a_certificate_is_due_when_another_authority_signs_or_its_key_is_another_s() -> None:
    ours, other = authority(seed=1), authority(seed=2)
    made, another = leaf.server(ours, A, START, token()), leaf.server(ours, A, START, token(9))

    assert not leaf.is_due(made.certificate, made.key, ours, START, leaf.SERVER)
    assert leaf.is_due(made.certificate, made.key, other, START, leaf.SERVER)
    for certificate in (b"", b"-----BEGIN", another.certificate):
        assert leaf.is_due(certificate, made.key, ours, START, leaf.SERVER)
    for key in (b"", b"-----BEGIN", another.key):
        assert leaf.is_due(made.certificate, key, ours, START, leaf.SERVER)


def test_an_authority_is_read_back_as_it_was_written_and_shows_its_key_nowhere() -> None:
    ours = authorities.renewed(authority(), "admin", START + 300 * DAY, token(2))
    assert len(ours.generations) == 2

    text = authorities.dump(ours)
    back = authorities.load(text)

    assert authorities.dump(back) == text
    assert back.bundle() == ours.bundle()
    certificate = leaf.server(back, A, START + 300 * DAY, token()).certificate
    assert trusts_server(ours.bundle(), certificate, A, START + 300 * DAY)
    secret = f"{ours.generations[0].key.private_numbers().private_value}"
    shown = repr(ours) + repr(leaf.server(ours, A, START, token()))
    assert secret not in shown
    assert "PRIVATE" not in shown


@pytest.mark.parametrize("cut", [0, 1, 40, 200, 300, 500])
def test_what_is_no_authority_is_refused_without_showing_it(cut: int) -> None:
    text = authorities.dump(authority())

    for damaged in (text[:cut], text[cut + 1 :], text.replace(b"PRIVATE", b"PUBLIC"), b"\xff" * cut):
        with pytest.raises(BadInput) as refused:
            authorities.load(damaged)
        assert "BEGIN" not in str(refused.value)


ALGORITHM = (bytes.fromhex("2a8648ce3d0201"), bytes.fromhex("2a8648ce3d0277"))  # "a key of a curve", and nobody's
NAME = (bytes.fromhex("06035504030c"), bytes.fromhex("06035504038c"))  # a common name, and one of no kind of text


def with_bytes(text: bytes, change: tuple[bytes, bytes]) -> bytes:
    """`text`, PEM, with other bytes in each key and certificate: of a release that knows more, or of a hand."""

    def changed(block: re.Match[bytes]) -> bytes:
        return block[1] + base64.encodebytes(base64.b64decode(block[2]).replace(*change)) + block[3]

    return re.sub(rb"(-----BEGIN [A-Z ]+-----\n)(.+?)(-----END)", changed, text, flags=re.DOTALL)


@pytest.mark.parametrize("change", [ALGORITHM, NAME], ids=["algorithm", "name"])
def test_keys_and_certificates_that_nobody_here_can_read_are_made_anew_and_end_no_pass(
    change: tuple[bytes, bytes],
) -> None:
    """A name in a certificate is parsed only when it is asked for."""
    ours = authority()
    made = leaf.server(ours, A, START, token())
    assert authorities.dump(authorities.load(with_bytes(authorities.dump(ours), (b"", b"")))) == authorities.dump(ours)

    if change is ALGORITHM:
        assert leaf.is_due(made.certificate, with_bytes(made.key, change), ours, START, leaf.SERVER)
    assert leaf.is_due(with_bytes(made.certificate, change), made.key, ours, START, leaf.SERVER)
    with pytest.raises(BadInput):
        authorities.load(with_bytes(authorities.dump(ours), change))


@pytest.mark.parametrize("seed", range(40))
def test_a_letter_that_is_another_in_the_middle_of_a_certificate_ends_no_pass(seed: int) -> None:
    rng, ours = random.Random(seed), authority()
    made = leaf.server(ours, A, START, token())
    damaged = []
    for text in (made.certificate, authorities.dump(ours)):
        place = rng.randrange(len(text))
        damaged.append(text[:place] + bytes(rng.choices(b"ABab09+/", k=1)) + text[place + 1 :])

    leaf.is_due(damaged[0], made.key, ours, START, leaf.SERVER)
    with contextlib.suppress(BadInput):
        read = authorities.load(damaged[1])
        leaf.is_due(made.certificate, made.key, read, START, leaf.SERVER)


def test_names_too_long_for_a_certificate_are_cut() -> None:
    ours = authorities.renewed(None, "n" * 300, START, token())
    client = leaf.client(ours, leaf.operator_name(A, "ns"), "p" * 300, START, token())

    assert trusts_client(ours.bundle(), client.certificate, START)
    assert serialization.load_pem_private_key(client.key, None)
