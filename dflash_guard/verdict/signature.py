"""Signed verdicts: a DSSE envelope (Ed25519) beside the verdict file, holding the same bytes.

The envelope's form and its pre-authentication encoding are those of the DSSE protocol, version 1.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dflash_guard.errors import GateError, UsageError
from dflash_guard.shards.writer import write_whole
from dflash_guard.verdict.canonical import canonical
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.record import Record

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["PAYLOAD_TYPE", "Signer", "verify_signature"]

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_MAKE: Final = "make one with: openssl genpkey -algorithm ed25519 -out guard.key"
_INSTALL: Final = "install it: pip install 'dflash-guard[sign]'"


class Signer:
    """Signs verdicts with a private key.

    Args:
        path: An Ed25519 private key in PEM, without a password.

    Raises:
        UsageError: It is no such key, or the library for it is not installed.
    """

    def __init__(self, path: str | Path) -> None:
        self._key = _private_key(Path(path))

    def sign(self, folder: GuardFolder, stage: str, payload: bytes) -> None:
        """Write the envelope of a verdict's bytes, whole."""
        signature = {"keyid": _key_id(self._key.public_key()), "sig": _base64(self._key.sign(_encoded(payload)))}
        envelope = {"payloadType": PAYLOAD_TYPE, "payload": _base64(payload), "signatures": [signature]}
        write_whole(folder.envelope(stage), canonical(envelope))


def verify_signature(folder: GuardFolder, record: Record, trust: Sequence[str | Path]) -> None:
    """Verify that one of the trusted keys signed exactly this verdict.

    Args:
        folder: The guard folder that holds verdict and envelope.
        record: The verdict.
        trust: Public keys in PEM.

    Raises:
        GateError: It is not signed, by another key, or for other bytes.
        UsageError: A file is no public key, or the library for it is not installed.
    """
    keys = [_public_key(Path(path)) for path in trust]
    hint = "judge the data with `check --sign KEY`, where KEY belongs to a key that is trusted."
    path = folder.envelope(record.stage)
    try:
        envelope = json.loads(path.read_bytes())
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(each["sig"], validate=True) for each in envelope["signatures"]]
        kind = envelope["payloadType"]
    except FileNotFoundError:
        raise GateError(f"the verdict {record.path} is not signed.", hint=hint) from None
    except OSError as error:
        raise GateError(f"the signature {path} can't be read: {error.strerror or error}.", hint=hint) from error
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise GateError(f"the signature {path} is damaged.", hint=hint) from error
    if kind != PAYLOAD_TYPE or hashlib.sha256(payload).hexdigest() != record.digest:
        raise GateError(f"the signature {path} is of another verdict.", hint=hint)
    if not any(_is_signed(key, signature, payload) for key in keys for signature in signatures):
        raise GateError(f"the verdict {record.path} is signed by no key that is trusted.", hint=hint)


def _is_signed(key: "Ed25519PublicKey", signature: bytes, payload: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, _encoded(payload))
    except InvalidSignature:
        return False
    return True


def _encoded(payload: bytes) -> bytes:
    """The bytes that are signed: type and payload with their lengths, so that neither can be read as the other."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def _private_key(path: Path) -> "Ed25519PrivateKey":
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise UsageError("--sign needs the library `cryptography`, which is not installed.", hint=_INSTALL) from error
    try:
        key = load_pem_private_key(_read(path, "--sign"), None)
    except (ValueError, TypeError) as error:
        raise UsageError(f"--sign: {path} is no private key in PEM without a password.", hint=_MAKE) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"--sign: {path} is a key of another kind than Ed25519.", hint=_MAKE)
    return key


def _public_key(path: Path) -> "Ed25519PublicKey":
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError as error:
        raise UsageError("--trust needs the library `cryptography`, which is not installed.", hint=_INSTALL) from error
    make = "take it from the private key with: openssl pkey -in guard.key -pubout -out guard.pub"
    try:
        key = load_pem_public_key(_read(path, "--trust"))
    except (ValueError, TypeError) as error:
        raise UsageError(f"--trust: {path} is no public key in PEM.", hint=make) from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"--trust: {path} is a key of another kind than Ed25519.", hint=make)
    return key


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{option}: {path} can't be read: {error.strerror or error}.", hint="check the path."
        ) from error


def _key_id(key: "Ed25519PublicKey") -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
