"""Keys that sign notes of losses: that of RFC 8032's first test, whose private half all know, and another one."""

import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from bookie.metadata.loss_signature import SigningKey, TrustedKey

ANN = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
)
BOB = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)


def fingerprint(key: Ed25519PrivateKey) -> str:
    return hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()


def signing(key: Ed25519PrivateKey) -> SigningKey:
    return SigningKey(fingerprint(key), key.sign)


def trusting(name: str, key: Ed25519PrivateKey) -> TrustedKey:
    def has_signed(signature: bytes, message: bytes) -> bool:
        try:
            key.public_key().verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return TrustedKey(name, fingerprint(key), has_signed)


def write_private(path: Path, key: Ed25519PrivateKey, *, password: bytes = b"", mode: int = 0o600) -> Path:
    how: KeySerializationEncryption = BestAvailableEncryption(password) if password else NoEncryption()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
    path.chmod(mode)
    return path


def write_public(path: Path, key: Ed25519PrivateKey) -> Path:
    path.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path
