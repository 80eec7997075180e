"""Addresses of Spark Connect servers: ``sc://HOST[:PORT][/;NAME=VALUE;…]``, Spark's client connection string.

Source: ``sql/connect/docs/client-connection-string.md`` of Spark. A token goes from process to process as the path of
a file, ``token=@PATH``; only the client that connects reads it. The text of a token would be seen in command lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from tidemark.errors import UsageError

SCHEME = "sc://"
DEFAULT_PORT = 15002
ROOTS_VARIABLE = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
"""gRPC's variable: a PEM file with the certificates of issuers to trust, in place of the usual ones."""
_FORM = re.compile(r"sc://(\[[0-9A-Fa-f:.]+\]|[^:/;\[\]]+)(?::([0-9]+))?(?:/(?:;(.*))?)?")
_NOT_LET_IN = ("UNAUTHENTICATED", "PERMISSION_DENIED")
"""gRPC's codes where a token is missing, or is not valid (any more)."""


def check_url(url: str) -> str:
    """The address as it is; raises ``UsageError`` if it is none, or if it has a token of which this is the text."""
    found = _FORM.fullmatch(url)
    shown = f"{url.partition('token=')[0]}token=…" if "token=" in url else url
    if found is None or not all(_separated(found[3] or "")):
        raise UsageError(
            f"{shown!r} is not the address of a Spark Connect server",
            hint="write it as sc://host:15002, or with parameters as sc://host:443/;use_ssl=true;user_id=me",
        )
    parameters = _parameters(url)
    if not parameters.get("token", "@").startswith("@"):
        raise UsageError(
            f"the address {shown!r} has a token, which anybody on this machine could read",
            hint="write the token into a file that you alone can read, and name the file: token=@/path/to/file",
        )
    if "session_id" in parameters:
        raise UsageError(
            f"the address {shown!r} sets session_id, which each run sets for itself",
            hint="leave session_id out",
        )
    return url


def host_and_port(url: str) -> tuple[str, int]:
    """Where its server listens."""
    found = _FORM.fullmatch(url)
    if found is None:
        return "", 0
    return found[1].strip("[]"), int(found[2] or DEFAULT_PORT)


def user_of(url: str) -> str | None:
    """The user that the address names."""
    return _parameters(url).get("user_id")


def with_parameters(url: str, **parameters: str) -> str:
    """The address with these parameters besides, or in the place of its own."""
    return _joined(url, {**_parameters(url), **parameters})


def with_token(url: str) -> str:
    """The address as Spark's client takes it: the token of its file in it, if it names one.

    Raises:
        UsageError: the file cannot be read, or is empty.
    """
    named, _, file = _parameters(url).get("token", "").partition("@")
    if named or not file:
        return url
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"the token of the Spark Connect server could not be read from {file!r}",
            detail=str(error),
            hint="token=@PATH in the address names a file with the token alone, which you can read",
        ) from error
    if not token:
        raise UsageError(f"{file!r} has no token", hint="write the token of the Spark Connect server into it")
    return with_parameters(url, token=token)


def without_token(text: str, url: str) -> str:
    """A text, an error message say, without the token that :func:`with_token` has put into this address."""
    token = _parameters(url).get("token")
    return text.replace(quote(token, safe=""), "…").replace(token, "…") if token else text


def is_refusal(error: str) -> bool:
    """Whether the text of a client's error says that the server does not let it in."""
    return any(f"StatusCode.{code}" in error for code in _NOT_LET_IN)


def client_environment() -> dict[str, str]:
    """The variables that a client of Spark Connect needs besides its address."""
    return {ROOTS_VARIABLE: os.environ[ROOTS_VARIABLE]} if ROOTS_VARIABLE in os.environ else {}


def _parameters(url: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in url.partition("/;")[2].split(";") if pair)
    return {name: unquote(value) for name, _, value in pairs}


def _separated(parameters: str) -> list[bool]:
    return [bool(re.fullmatch(r"[^=]+=.+", pair)) for pair in parameters.split(";") if pair]


def _joined(url: str, parameters: Mapping[str, str]) -> str:
    server = url.partition("/;")[0].rstrip("/")
    listed = ";".join(f"{name}={quote(value, safe='@')}" for name, value in parameters.items())
    return f"{server}/;{listed}" if listed else server
