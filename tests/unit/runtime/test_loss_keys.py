"""Keys that sign notes of losses, and those that are trusted; what is none is told (spec/metadata.md#M58)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from bookie.base import errors
from bookie.runtime import loss_keys
from loss_keys_support import ANN, BOB, fingerprint, write_private, write_public


def test_what_one_half_of_a_key_signs_the_other_one_knows(tmp_path: Path) -> None:
    key = loss_keys.signing_key(write_private(tmp_path / "key", ANN), "--sign-with")
    ann, bob = loss_keys.trusted_keys(
        [write_public(tmp_path / "ann.pub.pem", ANN), write_public(tmp_path / "bob.pub", BOB)]
    )

    assert (ann.name, bob.name) == ("ann", "bob")
    assert key.fingerprint == ann.fingerprint == fingerprint(ANN)
    assert ann.has_signed(key.sign(b"said"), b"said")
    assert not ann.has_signed(key.sign(b"said"), b"another")
    assert not bob.has_signed(key.sign(b"said"), b"said")
    assert not ann.has_signed(b"short", b"said")
    assert "sign=" not in repr(key)


def test_all_files_of_a_folder_are_trusted_but_those_that_kubernetes_hides(tmp_path: Path) -> None:
    write_public(tmp_path / "ann.pem", ANN)
    (tmp_path / "..data").mkdir()
    write_public(tmp_path / ".hidden", BOB)
    (tmp_path / "sub").mkdir()

    assert [each.name for each in loss_keys.trusted_keys([tmp_path])] == ["ann"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty: name another file"),
        (b"no key", "is no private key in PEM: name one that is, or make one: openssl genpkey -algorithm ed25519"),
        ("public", "is a public key: name one that is"),
        ("encrypted", "is encrypted: name one that is not"),
        ("elliptic", "is a private key of another kind than Ed25519: make one: openssl genpkey"),
        ("ed448", "is a private key of another kind than Ed25519"),
        ("two", "has more than one private key: give each a file of its own"),
        ("long", "cannot be read: it has more than 64 KiB, so it is another kind of file: name another file"),
        ("open", "may be read or changed by everybody on this machine (mode 0644)"),
        ("writable", "may be read or changed by everybody on this machine (mode 0602)"),
        ("nowhere", "cannot be read: No such file or directory: name another file"),
        ("folder", "cannot be read: Is a directory"),
    ],
)
def test_what_cannot_sign_is_told(tmp_path: Path, content: bytes | str, said: str) -> None:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    kind = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    match content:
        case bytes():
            path.write_bytes(content)
        case "public":
            write_public(path, ANN)
        case "encrypted":
            write_private(path, ANN, password=b"secret")
        case "elliptic":
            path.write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(*kind))
        case "ed448":
            path.write_bytes(ed448.Ed448PrivateKey.generate().private_bytes(*kind))
        case "two":
            path.write_bytes(b"".join(write_private(tmp_path / "one", each).read_bytes() for each in (ANN, BOB)))
        case "long":
            path.write_bytes(bytes(64 * 1024 + 1))
        case "open" | "writable":
            write_private(path, ANN, mode=0o644 if content == "open" else 0o602)
        case _:
            path = tmp_path if content == "folder" else tmp_path / "nowhere"

    with pytest.raises(errors.BadInput) as wrong:
        loss_keys.signing_key(path, "--sign-with")

    assert str(wrong.value).startswith(f"--sign-with {path} ")
    assert said in str(wrong.value)
    assert "PRIVATE" not in str(wrong.value)


def test_a_group_may_read_a_key_as_in_a_pod(tmp_path: Path) -> None:
    assert loss_keys.signing_key(write_private(tmp_path / "key", ANN, mode=0o440), "x").fingerprint == fingerprint(ANN)


def test_a_key_may_come_through_a_pipe(tmp_path: Path) -> None:
    """As `--sign-with <(gpg --decrypt key)` gives it: mode 0600 of a pipe says nothing, nor would another one."""
    reading, writing = os.pipe()
    os.write(writing, write_private(tmp_path / "key", ANN).read_bytes())
    os.close(writing)

    assert loss_keys.signing_key(f"/dev/fd/{reading}", "--sign-with").fingerprint == fingerprint(ANN)
    os.close(reading)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"no key", "is no public key in PEM: give the public one (openssl pkey -in KEY -pubout -out FILE)"),
        ("private", "is a private key: give the public one"),
        ("elliptic", "is a public key of another kind than Ed25519"),
        ("two", "has more than one key: give each a file of its own"),
        ("twice", "is the key of key as well: leave one out"),
        ("namesakes", "is a second key named ann: rename the file"),
        ("empty folder", "is a folder without a file: put public keys there (PEM)"),
        ("nowhere", "cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_trusted_is_told(tmp_path: Path, content: bytes | str, said: str) -> None:
    path = tmp_path / "key"
    paths = [path]
    match content:
        case bytes():
            path.write_bytes(content)
        case "private":
            write_private(path, ANN)
        case "elliptic":
            public = ec.generate_private_key(ec.SECP256R1()).public_key()
            path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        case "two":
            path.write_bytes(write_public(path, ANN).read_bytes() + write_public(path, BOB).read_bytes())
        case "twice":
            paths = [write_public(path, ANN), write_public(tmp_path / "again", ANN)]
        case "namesakes":
            paths = [write_public(tmp_path / "ann.pub", ANN), write_public(tmp_path / "ann.pem", BOB)]
        case "empty folder":
            path.mkdir()
        case _:
            pass

    with pytest.raises(errors.BadInput) as wrong:
        loss_keys.trusted_keys(paths)

    assert str(wrong.value).startswith(f"--trusted {paths[-1]} ")
    assert said in str(wrong.value)


@pytest.mark.slow
def test_without_the_package_it_is_named_and_nothing_else_misses_it(tmp_path: Path) -> None:
    write_private(tmp_path / "key", ANN)
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from bookie.cli import main\n"
        "words = ['ledger', 'accept-loss', '7', '--metadata-service-uri', 'zk://127.0.0.1:1/ledgers']\n"
        f"words += ['--bookie', 'b:1', '--reason', 'why', '--sign-with', {str(tmp_path / 'key')!r}]\n"
        "sys.exit(main.main(words))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "signatures need the package cryptography, which is not installed: " in done.stderr
    assert "pip install '.[bookie]'" in done.stderr
