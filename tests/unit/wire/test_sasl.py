"""DIGEST-MD5 against the vector that the JDK's own classes printed (spec/wire.md#W40), and against itself."""

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
