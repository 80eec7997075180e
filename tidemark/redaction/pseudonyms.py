"""Pseudonyms: what stands in redacted evidence for an id, a key or another text.

A pseudonym is the BLAKE2b of the text, keyed with a salt, of 80 bits, written as 16 letters and digits of base32.
BLAKE2b with a key is a MAC: without the salt no text can be tried. Among 10^8 different texts two have the same 80 bits
with a probability of 4 in 10^9; with 64 bits it would be 1 in 3,700. 16 characters can be read, and compared by eye.

The salt is random for each command and is written nowhere, unless the caller has it in a file, so that the pseudonyms
of two runs can be compared. One salt is used for ids and keys of all topics: what is equal stays equal.
"""

from __future__ import annotations

import base64
import secrets
from hashlib import blake2b
from pathlib import Path

from tidemark.errors import UsageError

BITS = 80
SALT_BYTES = 32
LEAST_SALT_BYTES = 16
"""A shorter salt could be found by trying."""
NAME = f"blake2b-{BITS}"
"""The hash, as the manifest names it."""


class Pseudonyms:
    """Gives the pseudonym of any text; NULL stays NULL."""

    def __init__(self, salt: bytes | None = None) -> None:
        self._state = blake2b(digest_size=BITS // 8, key=_key(salt or secrets.token_bytes(SALT_BYTES)))

    def of(self, text: str) -> str:
        """The pseudonym of a text."""
        return self.of_bytes(text.encode("utf-8", "surrogatepass"))

    def of_bytes(self, data: bytes) -> str:
        """The pseudonym of bytes."""
        state = self._state.copy()
        state.update(data)
        return base64.b32encode(state.digest()).decode().lower()

    def or_null(self, text: str | None) -> str | None:
        """The pseudonym of a text, ``None`` of NULL."""
        return None if text is None else self.of(text)


def must_be_used(salt: Path | None, *, redact: bool) -> None:
    """Raise ``UsageError`` if there is a salt and nothing is redacted."""
    if salt is not None and not redact:
        raise UsageError(
            f"the salt {str(salt)!r} is given, and nothing is to be redacted",
            hint="say redact=True, or --redact",
        )


def read_salt(path: Path | None) -> bytes | None:
    """The salt in a file, all of its bytes; ``None`` without one. Raises ``UsageError`` for a file that is none."""
    if path is None:
        return None
    try:
        salt = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the salt {str(path)!r} cannot be read",
            detail=str(error),
            hint="make one: head -c 32 /dev/urandom > FILE",
        ) from error
    if len(salt) < LEAST_SALT_BYTES:
        raise UsageError(
            f"the salt {str(path)!r} has {len(salt)} bytes",
            detail=f"what has less than {LEAST_SALT_BYTES} can be found by trying",
            hint="make one: head -c 32 /dev/urandom > FILE",
        )
    return salt


def _key(salt: bytes) -> bytes:
    """A salt as a key, which has 64 bytes at most."""
    return blake2b(salt).digest()
