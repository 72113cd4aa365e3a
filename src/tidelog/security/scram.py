"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677): both sides of an exchange, and credentials.

    client  n,,n=alice,r=<nonce>
    server  r=<nonce and more>,s=<salt>,i=<iterations>
    client  c=biws,r=<nonce and more>,p=<proof>
    server  v=<signature>

Invariant  Nobody keeps a password: a credential proves one, and cannot be used in its place.
Invariant  What proves anything is compared in a time that does not depend on it.
Invariant  A server answers for a user that it does not know as for one whose password is wrong, in
           the same number of steps.
Invariant  A client computes no more rounds than a server of ours would ever ask for.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.security.exchange import AuthenticationFailed, Proved

ITERATIONS_LEAST: Final = 4_096
ITERATIONS_MOST: Final = 16_384
NONCE_BYTES: Final = 24
SALT_BYTES: Final = 24
_ATTRIBUTE: Final = re.compile(r"[A-Za-z]=[^,]*")
_NO_BINDING: Final = b"n,,"


class ScramMechanism(IntEnum):
    """By the number that records and requests carry."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The hash function, as hashlib names it."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()

    @property
    def size(self) -> int:
        """Bytes of a hash."""
        return hashlib.new(self.digest).digest_size

    def hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.digest)

    def hash(self, message: bytes) -> bytes:
        return hashlib.new(self.digest, message).digest()

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        return hashlib.pbkdf2_hmac(self.digest, password.encode(), salt, iterations)


SCRAM_BY_NAME: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


class ScramCredential(NamedTuple):
    """What a server keeps of a user."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_salted_password(
        cls, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        stored = mechanism.hash(mechanism.hmac(salted, b"Client Key"))
        return cls(salt, stored, mechanism.hmac(salted, b"Server Key"), iterations)

    def __repr__(self) -> str:
        return "ScramCredential(hidden)"


class ScramServer:
    """One exchange, as the server sees it."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], ScramCredential | None],
        nonce: bytes,
        secret: bytes,
    ) -> None:
        """`secret` is the node's own, from which it makes up salts of users that do not exist."""
        self._mechanism = mechanism
        self._find = find
        self._nonce = b64encode(nonce)
        self._secret = secret
        self._credential: ScramCredential | None = None
        self._user = ""
        self._header = b""
        self._first: bytes | None = None
        self._whole_nonce = b""

    def respond(self, token: bytes) -> bytes | Proved:
        """The answer to a message of the client, or who it has proved to be."""
        return self._begin(token) if self._first is None else self._end(token)

    def _begin(self, token: bytes) -> bytes:
        text = _text(token)
        flag, found, rest = text.partition(",")
        authorization, also, bare = rest.partition(",")
        if flag not in ("n", "y") or not found or not also:
            raise AuthenticationFailed("the first message of the client cannot be read")
        name, nonce = _two(bare, "n", "r")
        self._user = _user_of(name)
        if authorization and _user_of(authorization.removeprefix("a=")) != self._user:
            raise AuthenticationFailed("a user cannot act for another one", self._user)
        credential = self._find(self._user)
        self._credential = credential
        salt, iterations = (
            self._made_up()
            if credential is None
            else (
                credential.salt,
                credential.iterations,
            )
        )
        self._header = f"{flag},{authorization},".encode()
        self._whole_nonce = nonce.encode() + self._nonce
        first = b"r=%b,s=%b,i=%d" % (self._whole_nonce, b64encode(salt), iterations)
        self._first = bare.encode() + b"," + first
        return first

    def _made_up(self) -> tuple[bytes, int]:
        made_up = self._mechanism.hmac(self._secret, self._user.encode())
        return made_up[:SALT_BYTES], ITERATIONS_LEAST

    def _made_up_key(self) -> bytes:
        return self._mechanism.hmac(self._secret, b"key of " + self._user.encode())

    def _end(self, token: bytes) -> Proved:
        text = _text(token)
        unproved, found, proof_text = text.rpartition(",p=")
        binding, nonce = _two(unproved, "c", "r")
        if not found or not hmac.compare_digest(nonce.encode(), self._whole_nonce):
            raise AuthenticationFailed("the last message of the client does not fit the first one")
        if _decoded(binding) != self._header:
            raise AuthenticationFailed("the client answers over another channel")
        mechanism, credential = self._mechanism, self._credential
        proof = _decoded(proof_text)
        message = (self._first or b"") + b"," + unproved.encode()
        if len(proof) != mechanism.size:
            raise AuthenticationFailed("a proof has another length")
        stored_key = self._made_up_key() if credential is None else credential.stored_key
        client_key = _xor(proof, mechanism.hmac(stored_key, message))
        is_right = hmac.compare_digest(mechanism.hash(client_key), stored_key)
        if credential is None:
            raise AuthenticationFailed("no user of this name has this password")
        if not is_right:
            raise AuthenticationFailed("the password is wrong", self._user)
        confirmed = b"v=" + b64encode(mechanism.hmac(credential.server_key, message))
        return Proved(self._user, confirmed)


class ScramClient:
    """One exchange, as the client sees it."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: bytes) -> None:
        self._mechanism = mechanism
        self._password = password
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._nonce = b64encode(nonce).decode()
        self._bare = f"n={name},r={self._nonce}"
        self._expected: bytes | None = None
        self.is_complete = False

    def begin(self) -> bytes:
        """The first message."""
        return _NO_BINDING + self._bare.encode()

    def respond(self, token: bytes) -> bytes | None:
        """The answer to a message of the server; None after its last one, which proves itself."""
        if self._expected is None:
            return self._prove(token)
        given = _decoded(_text(token).removeprefix("v="))
        if self.is_complete or not hmac.compare_digest(given, self._expected):
            raise AuthenticationFailed("the server does not know the password either")
        self.is_complete = True
        return None

    def _prove(self, token: bytes) -> bytes:
        parts = _text(token).split(",")
        if len(parts) < 3:
            raise AuthenticationFailed("the server's first message cannot be read")
        nonce, salt, rounds = (_value(part, key) for part, key in zip(parts, "rsi", strict=False))
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationFailed("the server answers somebody else")
        iterations = int(rounds) if rounds.isascii() and rounds.isdigit() else 0
        if not ITERATIONS_LEAST <= iterations <= ITERATIONS_MOST:
            raise AuthenticationFailed(
                f"the server wants {rounds[:20]} iterations; {ITERATIONS_LEAST} to "
                f"{ITERATIONS_MOST} are computed"
            )
        mechanism = self._mechanism
        salted = mechanism.salted(self._password, _decoded(salt), iterations)
        client_key = mechanism.hmac(salted, b"Client Key")
        unproved = f"c={b64encode(_NO_BINDING).decode()},r={nonce}"
        message = b",".join((self._bare.encode(), token, unproved.encode()))
        signature = mechanism.hmac(mechanism.hash(client_key), message)
        self._expected = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), message)
        proof = b64encode(_xor(client_key, signature)).decode()
        return f"{unproved},p={proof}".encode()


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationFailed("a message is not text") from error


def _two(text: str, first: str, second: str) -> tuple[str, str]:
    """The values of the first two attributes; what follows them is for others to understand."""
    parts = text.split(",")
    if len(parts) < 2 or any(_ATTRIBUTE.fullmatch(part) is None for part in parts):
        raise AuthenticationFailed("a message cannot be read")
    return _value(parts[0], first), _value(parts[1], second)


def _value(part: str, key: str) -> str:
    if not part.startswith(f"{key}=") or len(part) == 2:
        raise AuthenticationFailed(f"a message has no {key}")
    return part[2:]


def _user_of(name: str) -> str:
    plain = name.replace("=2C", ",").replace("=3D", "\0").replace("=", "\1").replace("\0", "=")
    if "\1" in plain or not plain:
        raise AuthenticationFailed("the name of the user cannot be read")
    return plain


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError) as error:
        raise AuthenticationFailed("a message is not in base 64") from error


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
