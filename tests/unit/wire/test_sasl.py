"""DIGEST-MD5 against the vector that the JDK's own classes printed (spec/wire.md#W40), and against itself."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.wire.sasl import DigestClient, DigestServer

USER, PASSWORD = "bookkeeperuser", "testpwd"
NONCE = "wk6Z1BrahVQheaOMHlCzjc7trMdvlghQs7gxXCT8"
CNONCE = "FEoBhHv4dPaDweHzeGV+SfVFwNOgQmasWo+HBV3+"
CHALLENGE = f'realm="bookkeeper",nonce="{NONCE}",charset=utf-8,algorithm=md5-sess'.encode()
RESPONSE = (
    f'charset=utf-8,username="{USER}",realm="bookkeeper",nonce="{NONCE}",nc=00000001,cnonce="{CNONCE}",'
    'digest-uri="bookkeeper/bookkeeper",maxbuf=65536,response=58cf0ce303af0aa72ab93a463e4fcf71,qop=auth,'
    f'authzid="{USER}"'
).encode()
RSPAUTH = b"rspauth=4de4cd9bf3357e895debbb68e960874a"
ANYBODY = re.compile(".*")
BOOKKEEPERS = re.compile(".*bookkeeper.*")  # Java's default


def server(users: dict[str, str] | None = None, allowed: re.Pattern[str] = BOOKKEEPERS) -> DigestServer:
    known = {USER: PASSWORD} if users is None else users
    return DigestServer({user: Secret(password) for user, password in known.items()}, allowed, NONCE)


def test_the_bookie_answers_the_jdk_as_the_jdk_does() -> None:
    bookie = server()

    assert bookie.answer(b"") == CHALLENGE
    assert bookie.answer(RESPONSE) == RSPAUTH
    assert bookie.user == USER


def test_the_client_answers_the_jdk_as_the_jdk_does() -> None:
    client = DigestClient(USER, Secret(PASSWORD), CNONCE)

    assert client.answer(CHALLENGE) == RESPONSE
    assert not client.is_complete
    assert client.answer(RSPAUTH) is None
    assert client.is_complete


@pytest.mark.parametrize(
    ("what", "users", "allowed"),
    [
        ("a wrong password", {USER: "other"}, BOOKKEEPERS),
        ("an unknown user", {"bookkeeper": PASSWORD}, BOOKKEEPERS),
        ("nobody known", {}, BOOKKEEPERS),
        ("a name that is not allowed", {USER: PASSWORD}, re.compile("admin")),
        ("a name allowed in part only", {USER: PASSWORD}, re.compile("bookkeeper")),
    ],
)
def test_the_bookie_refuses(what: str, users: dict[str, str], allowed: re.Pattern[str]) -> None:
    bookie = server(users, allowed)
    bookie.answer(b"")

    with pytest.raises(errors.Unauthorized, match="SASL") as caught:
        bookie.answer(RESPONSE)

    assert bookie.user is None
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (NONCE, "another"),
        ("nc=00000001", "nc=00000002"),
        ('digest-uri="bookkeeper/bookkeeper"', 'digest-uri="ftp/bookkeeper"'),
        ('realm="bookkeeper"', 'realm="other"'),
        ("qop=auth", "qop=auth-conf"),
        (f'cnonce="{CNONCE}",', ""),
        (f'authzid="{USER}"', 'authzid="root"'),
        ("response=58cf0ce303af0aa72ab93a463e4fcf71", "response=58cf0ce303af0aa72ab93a463e4fcf72"),
        ("response=58cf0ce303af0aa72ab93a463e4fcf71,", ""),
        ("maxbuf=65536", 'username="twice"'),
        ("qop=auth", "qop"),
    ],
)
def test_one_wrong_directive_is_enough(old: str, new: str) -> None:
    bookie = server()
    bookie.answer(b"")
    changed = RESPONSE.replace(old.encode(), new.encode())
    assert changed != RESPONSE

    with pytest.raises(errors.Unauthorized):
        bookie.answer(changed)


def test_a_nonce_is_good_for_one_attempt() -> None:
    bookie = server()
    bookie.answer(b"")
    with pytest.raises(errors.Unauthorized):
        bookie.answer(RESPONSE.replace(b"response=5", b"response=6"))

    with pytest.raises(errors.Unauthorized):
        bookie.answer(RESPONSE)


def test_the_response_before_the_challenge_is_refused() -> None:
    with pytest.raises(errors.Unauthorized, match="empty"):
        server().answer(RESPONSE)


def test_who_is_not_known_does_not_pass_without_a_password() -> None:
    bookie = server()
    client = DigestClient("bookkeeper-stranger", Secret(""), CNONCE)
    proof = client.answer(bookie.answer(b""))
    assert proof is not None

    with pytest.raises(errors.Unauthorized, match="no such user"):
        bookie.answer(proof)


def proof(*, cnonce: str = CNONCE, authzid: str = USER) -> bytes:
    """What one says who knows the password; the digest is the right one for all of it (RFC 2831, 2.1.2.1)."""

    def md5(data: bytes) -> bytes:
        return hashlib.md5(data, usedforsecurity=False).digest()

    secret = md5(f"{USER}:bookkeeper:{PASSWORD}".encode()) + f":{NONCE}:{cnonce}:{authzid}".encode()
    a2 = md5(b"AUTHENTICATE:bookkeeper/bookkeeper").hex()
    response = md5(f"{md5(secret).hex()}:{NONCE}:00000001:{cnonce}:auth:{a2}".encode()).hex()
    return RESPONSE.replace(CNONCE.encode(), cnonce.encode()).replace(
        f'response=58cf0ce303af0aa72ab93a463e4fcf71,qop=auth,authzid="{USER}"'.encode(),
        f'response={response},qop=auth,authzid="{authzid}"'.encode(),
    )


def test_the_right_password_is_not_enough_for_somebody_else_nor_without_a_nonce_of_ones_own() -> None:
    assert proof() == RESPONSE
    for said, wrong in ((proof(authzid="bookkeeper-admin"), "authzid"), (proof(cnonce=""), "cnonce")):
        bookie = server()
        bookie.answer(b"")

        with pytest.raises(errors.Unauthorized, match=f"wrong {wrong}"):
            bookie.answer(said)


def test_a_directive_that_is_given_twice_is_refused() -> None:
    bookie = server()
    bookie.answer(b"")

    with pytest.raises(errors.Unauthorized, match="username twice"):
        bookie.answer(b'username="somebody",' + RESPONSE)


def test_a_proof_for_another_realm_is_refused() -> None:
    """The password is right, and what it was asked for is not this service."""
    bookie = server()
    client = DigestClient(USER, Secret(PASSWORD), CNONCE)
    proof = client.answer(bookie.answer(b"").replace(b'realm="bookkeeper"', b'realm="other"'))
    assert proof is not None

    with pytest.raises(errors.Unauthorized, match="wrong realm"):
        bookie.answer(proof)


def test_a_client_does_not_believe_a_bookie_that_does_not_know_the_password() -> None:
    client = DigestClient(USER, Secret(PASSWORD), CNONCE)
    client.answer(CHALLENGE)

    with pytest.raises(errors.Unauthorized, match="not one of ours"):
        client.answer(RSPAUTH.replace(b"4de", b"5de"))
    assert not client.is_complete


@given(user=st.text(min_size=1, max_size=20), password=st.text(max_size=20), nonce=st.text(min_size=1, max_size=30))
def test_any_name_and_password_survive_the_exchange(user: str, password: str, nonce: str) -> None:
    bookie = DigestServer({user: Secret(password)}, re.compile(".*", re.DOTALL), "0123456789abcdef")
    client = DigestClient(user, Secret(password), nonce)

    response = client.answer(bookie.answer(b""))
    assert response is not None
    assert client.answer(bookie.answer(response)) is None

    assert client.is_complete
    assert bookie.user == user


@given(st.binary(max_size=200))
def test_no_bytes_make_either_side_stumble_or_believe(data: bytes) -> None:
    bookie, client = server(), DigestClient(USER, Secret(PASSWORD), CNONCE)
    bookie.answer(b"")

    with pytest.raises(errors.Unauthorized):
        bookie.answer(data)
    with pytest.raises(errors.Unauthorized):
        client.answer(data)

    assert bookie.user is None
    assert not client.is_complete


def test_a_message_beyond_its_limit_is_not_parsed() -> None:
    bookie = server()
    bookie.answer(b"")

    with pytest.raises(errors.Unauthorized, match="4096 are allowed"):
        bookie.answer(RESPONSE + b"," + b"x" * 4096)
