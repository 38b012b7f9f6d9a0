"""Reads the keys that sign notes of losses, and those that are trusted (spec/metadata.md#M58): Ed25519, PEM.

The package `cryptography` is imported when a key is read: whoever signs nothing needs neither it nor its 9 MB. Never
logs a key, nor puts one into an error.
"""

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bookie.base import errors, extras
from bookie.metadata.loss_signature import SigningKey, TrustedKey
from bookie.runtime import given_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_MAKE = "make one: openssl genpkey -algorithm ed25519 -out FILE"
_MAKE_PUBLIC = "openssl pkey -in KEY -pubout -out FILE"
_FILE_BYTES_MAX = 64 * 1024
_BEGIN, _PUBLIC = b"-----BEGIN ", b"-----BEGIN PUBLIC KEY-----"
_PRIVATE = b"PRIVATE KEY-----"  # stands twice around one


def signing_key(path: str | Path, named_by: str) -> SigningKey:
    """Return the private key in a file (PKCS#8, not encrypted). `named_by`: the flag or the setting, for errors. Raises
    BadInput, also where everybody on the machine may read or change the file."""
    which = f"{named_by} {path}"
    data = _read(path, which)
    if data.count(_PRIVATE) > 2:
        raise errors.BadInput(f"{which} has more than one private key: give each a file of its own")
    _check_installed()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(data, None)
    except TypeError:
        raise errors.BadInput(f"{which} is encrypted: name one that is not (openssl pkey -in FILE -out NEW)") from None
    except (ValueError, UnsupportedAlgorithm):
        what = "is a public key" if data.startswith(_PUBLIC) else "is no private key in PEM"
        raise errors.BadInput(f"{which} {what}: name one that is, or {_MAKE}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise errors.BadInput(f"{which} is a private key of another kind than Ed25519: {_MAKE}")
    _refuse_open(path, which)
    return SigningKey(_fingerprint(key.public_key()), key.sign)


def trusted_keys(paths: Sequence[Path]) -> tuple[TrustedKey, ...]:
    """Return the public keys in files, and in all files of folders but those that begin with a dot; each is named as
    its file, without `.pem` or `.pub`. Raises BadInput, also for a folder without any, for one key twice, and for two
    of one name."""
    found: dict[str, TrustedKey] = {}
    for path in (file for each in paths for file in _files(each)):
        key = _trusted_key(path)
        if key.fingerprint in found:
            raise errors.BadInput(
                f"--trusted {path} is the key of {found[key.fingerprint].name} as well: leave one out"
            )
        if any(key.name == each.name for each in found.values()):
            raise errors.BadInput(f"--trusted {path} is a second key named {key.name}: rename the file")
        found[key.fingerprint] = key
    return tuple(found.values())


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    try:
        found = sorted(each for each in path.iterdir() if not each.name.startswith(".") and not each.is_dir())
    except OSError as error:
        raise errors.BadInput(f"--trusted {path} cannot be read: {error.strerror}: name another one") from error
    if not found:
        raise errors.BadInput(f"--trusted {path} is a folder without a file: put public keys there (PEM)")
    return found


def _trusted_key(path: Path) -> TrustedKey:
    which = f"--trusted {path}"
    data = _read(path, which)
    _check_installed()
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if data.count(_BEGIN) > 1:
        raise errors.BadInput(f"{which} has more than one key: give each a file of its own, which names it")
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        what = "is a private key" if b"PRIVATE KEY-----" in data else "is no public key in PEM"
        raise errors.BadInput(f"{which} {what}: give the public one ({_MAKE_PUBLIC})") from None
    if not isinstance(key, Ed25519PublicKey):
        raise errors.BadInput(f"{which} is a public key of another kind than Ed25519: leave it out")

    def has_signed(signature: bytes, message: bytes) -> bool:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    name = path.name.removesuffix(".pem").removesuffix(".pub")
    return TrustedKey(name, _fingerprint(key), has_signed)


def _read(path: str | Path, which: str) -> bytes:
    try:
        found = given_file.read(path, bytes_max=_FILE_BYTES_MAX)
    except OSError as error:
        raise errors.BadInput(f"{which} cannot be read: {error.strerror}: name another file") from error
    if not found:
        raise errors.BadInput(f"{which} is empty: name another file")
    return found


def _refuse_open(path: str | Path, which: str) -> None:
    """Raise BadInput for a file that everybody on this machine may read or change."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise errors.BadInput(f"{which} cannot be looked at: {error.strerror}: name another file") from error
    if stat.S_ISREG(mode) and mode & (stat.S_IROTH | stat.S_IWOTH):
        raise errors.BadInput(
            f"{which} may be read or changed by everybody on this machine (mode {stat.S_IMODE(mode):04o}), who could"
            " sign with it: chmod 600, and where others were here, a new key"
        )


def _check_installed() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise errors.BadInput(
            f"signatures need the package cryptography, which is not installed: {extras.INSTALL.format('bookie')}"
        ) from None


def _fingerprint(key: "Ed25519PublicKey") -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()
