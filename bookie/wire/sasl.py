"""Both sides of SASL DIGEST-MD5 (RFC 2831), as Java's SASL providers speak it: state machines without a socket.

    client                                  bookie
    (empty)                      ──►
                                 ◄──        realm, nonce, charset=utf-8, algorithm=md5-sess
    username, nonce, nc, cnonce, ──►
    digest-uri, response, authzid
                                 ◄──        rspauth: the bookie knows the password too

Java fixes the plugin "sasl", realm, protocol and host "bookkeeper", and qop "auth" (SaslConstants.java). The mechanism
stands on MD5. It proves a password without showing it to a listener, but it encrypts nothing and does not stop an
attacker who changes bytes: use TLS beside it (docs/SECURITY.md). Rule: spec/wire.md#W40.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping

from bookie.base import errors
from bookie.base.secret import Secret

PLUGIN = "sasl"
REALM = "bookkeeper"
_DIGEST_URI = "bookkeeper/bookkeeper"
_NONCE_COUNT = "00000001"  # we never continue an earlier exchange
# RFC 2831, 2.1: neither side accepts a longer message.
_CHALLENGE_SIZE_MAX = 2048
_RESPONSE_SIZE_MAX = 4096

_DIRECTIVE = re.compile(r'\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*))\s*(?:,|$)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class DigestServer:
    """A bookie's side of one exchange. `users`: passwords by name. `nonce` must be new and unguessable."""

    def __init__(self, users: Mapping[str, Secret], allowed_ids: re.Pattern[str], nonce: str) -> None:
        self.user: str | None = None  # proven, once the exchange is over
        self._users = users
        self._allowed_ids = allowed_ids
        self._nonce = nonce
        self._was_challenged = False

    def answer(self, payload: bytes) -> bytes:
        """Return the answer to the client's message. Raises Unauthorized: the exchange is then over for good."""
        if not self._was_challenged:
            self._was_challenged = True
            if payload:
                raise errors.Unauthorized("SASL DIGEST-MD5 begins with an empty message")
            return f'realm="{REALM}",nonce="{self._nonce}",charset=utf-8,algorithm=md5-sess'.encode()
        self._users, users = {}, self._users  # one attempt only: else an attacker could try passwords on one nonce
        given = _parse(payload, _RESPONSE_SIZE_MAX)
        self._check(given)
        user = given.get("username", "")
        # An unknown user takes as long as a wrong password, so that nobody can find out names.
        password = users.get(user)  # asked once: users may change at any time
        key = _session_key(user, (Secret("") if password is None else password).reveal(), given, self._nonce)
        expected = _digest(key, "AUTHENTICATE:", self._nonce, given["cnonce"])
        if not hmac.compare_digest(expected.encode(), given.get("response", "").encode()) or password is None:
            raise errors.Unauthorized("SASL: no such user, or a wrong password")
        if not self._allowed_ids.fullmatch(user):
            raise errors.Unauthorized(f"SASL: user {user!r} is not one of saslJaasClientAllowedIds")
        self.user = user
        return f"rspauth={_digest(key, ':', self._nonce, given['cnonce'])}".encode()

    def _check(self, given: Mapping[str, str]) -> None:
        wanted = {"nonce": self._nonce, "nc": _NONCE_COUNT, "digest-uri": _DIGEST_URI}
        wrong = [name for name, value in wanted.items() if given.get(name) != value]
        if given.get("realm", REALM) != REALM:
            wrong.append("realm")
        if given.get("qop", "auth") != "auth":
            wrong.append("qop")
        if not given.get("cnonce"):
            wrong.append("cnonce")
        if given.get("authzid", given.get("username")) != given.get("username"):
            wrong.append("authzid")  # nobody acts for somebody else
        if wrong:
            raise errors.Unauthorized(f"SASL: the response has a wrong {', '.join(wrong)}")


class DigestClient:
    """A client's side of one exchange. `cnonce` must be new and unguessable. `digest_uri` names the service that the
    client means; `server` is its name in errors."""

    def __init__(
        self, user: str, password: Secret, cnonce: str, *, digest_uri: str = _DIGEST_URI, server: str = "the bookie"
    ) -> None:
        self.is_complete = False  # the bookie has proven that it knows the password
        self._user = user
        self._password = password
        self._cnonce = cnonce
        self._digest_uri = digest_uri
        self._server = server
        self._rspauth: str | None = None

    def answer(self, payload: bytes) -> bytes | None:
        """Return the answer to the bookie's message; None when the exchange is over. Raises Unauthorized."""
        given = _parse(payload, _CHALLENGE_SIZE_MAX)
        if self._rspauth is not None:
            if not hmac.compare_digest(self._rspauth.encode(), given.get("rspauth", "").encode()):
                raise errors.Unauthorized(f"SASL: {self._server} does not know the password: it is not one of ours")
            self.is_complete = True
            return None
        nonce, realm = given.get("nonce", ""), given.get("realm", "")
        if not nonce or given.get("algorithm") != "md5-sess" or "auth" not in given.get("qop", "auth").split(","):
            raise errors.Unauthorized(f"SASL: {self._server} offers no DIGEST-MD5 with md5-sess and qop auth")
        names = {"username": self._user, "realm": realm, "cnonce": self._cnonce, "authzid": self._user}
        key = _session_key(self._user, self._password.reveal(), names, nonce)
        self._rspauth = _digest(key, ":", nonce, self._cnonce, self._digest_uri)
        response = _digest(key, "AUTHENTICATE:", nonce, self._cnonce, self._digest_uri)
        return (
            f'charset=utf-8,username="{_escape(self._user)}",realm="{_escape(realm)}",nonce="{_escape(nonce)}"'
            f',nc={_NONCE_COUNT},cnonce="{_escape(self._cnonce)}",digest-uri="{self._digest_uri}",maxbuf=65536'
            f',response={response},qop=auth,authzid="{_escape(self._user)}"'
        ).encode()


# ---- RFC 2831, 2.1.2.1


def _session_key(user: str, password: str, given: Mapping[str, str], nonce: str) -> str:
    """Return the hex digits of H(A1), as md5-sess defines it."""
    realm = given.get("realm", "")
    inner = _md5(_latin1(user) + b":" + _latin1(realm) + b":" + _latin1(password))
    outer = inner + f":{nonce}:{given['cnonce']}".encode()
    if "authzid" in given:
        outer += b":" + given["authzid"].encode()
    return _md5(outer).hex()


def _digest(key: str, method: str, nonce: str, cnonce: str, digest_uri: str = _DIGEST_URI) -> str:
    """Return the client's `response`; with an empty method (":" alone) the server's `rspauth`."""
    a2 = _md5(f"{method}{digest_uri}".encode()).hex()
    return _md5(f"{key}:{nonce}:{_NONCE_COUNT}:{cnonce}:auth:{a2}".encode()).hex()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _latin1(text: str) -> bytes:
    """Encode `text` in ISO 8859-1 where that is possible, else in UTF-8 (RFC 2831, 2.1.2.1, note on the charset)."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


# ---- directives: name=value or name="quoted \" value", comma-separated


def _parse(payload: bytes, size_max: int) -> dict[str, str]:
    """Return the directives by name. Raises Unauthorized for another form, and for a directive given twice."""
    if len(payload) > size_max:
        raise errors.Unauthorized(f"SASL: the message has {len(payload)} bytes; at most {size_max} are allowed")
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        raise errors.Unauthorized("SASL: the message is not UTF-8") from None
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _DIRECTIVE.match(text, position)
        if match is None:
            raise errors.Unauthorized("SASL: the message is not a list of directives (name=value, ...)")
        name, quoted, plain = match.groups()
        if name.lower() in found:
            raise errors.Unauthorized(f"SASL: the message gives {name} twice")
        found[name.lower()] = plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
        position = match.end()
    return found


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
