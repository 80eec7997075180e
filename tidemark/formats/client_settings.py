"""Settings of Kafka's clients in a file: a login is never on a command line, where every user of a machine sees it.

Free of Kafka. The file is that of Kafka's own tools (``--command-config``): a line for each setting, ``NAME=VALUE``, in
Kafka's Java names or in those of the C client (librdkafka). As in Java's property files, ``#`` or ``!`` begins a
comment, a backslash at the end of a line continues it, and a backslash is written as two. Of the Java names, the login
of PLAIN and SCRAM (``sasl.jaas.config``) and stores in PEM are translated for the C client:

================================================  ================================================================
Java                                              C client
================================================  ================================================================
``sasl.jaas.config``                              ``sasl.username``, ``sasl.password``
``ssl.truststore.location`` (PEM)                 ``ssl.ca.location``
``ssl.truststore.certificates``                   ``ssl.ca.pem``
``ssl.keystore.location`` (PEM)                   ``ssl.certificate.location``, ``ssl.key.location``
``ssl.keystore.location`` (PKCS#12)               the same, and ``ssl.keystore.password``
``ssl.keystore.certificate.chain``                ``ssl.certificate.pem``
``ssl.keystore.key``                              ``ssl.key.pem``
``ssl.endpoint.identification.algorithm`` empty   ``none``
================================================  ================================================================

What Spark's Kafka clients need goes the other way, into a file that they read themselves (Kafka's
``FileConfigProvider``, KIP-421): Spark's options have references into it, ``${file:PATH:NAME}``, so that no password is
in a plan, an event log or a session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tidemark.errors import UsageError

CONF_VARIABLE = "TIDEMARK_KAFKA_CONF"
"""Names the file where no option does."""
SECURITY = ("security.", "sasl.", "ssl.", "enable.ssl.")
"""The beginnings of the names of settings that decide who a client is, and whom it believes."""
PROVIDERS = "config.providers"
FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
REFERENCE = re.compile(r"\$\{file:([^}:]*):([^}:]*)\}")

_FORM = "a line for each setting: NAME=VALUE"
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_MODULE = re.compile(r"\s*[\w.$]*?(Plain|Scram)LoginModule\s+\w+\s(.*);\s*", re.DOTALL)
_OPTION = re.compile(
    r"""([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""", re.DOTALL
)
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM": "scram.ScramLoginModule"}
_SAME_FOR_SPARK = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.password",
)


def conf_from_environment() -> Path | None:
    """The file that ``TIDEMARK_KAFKA_CONF`` names, if it names one."""
    named = os.environ.get(CONF_VARIABLE)
    return Path(named) if named else None


def read_client_settings(path: Path) -> dict[str, str]:
    """The settings of a file in the names of the C client.

    Raises ``UsageError`` for a file that cannot be read, a line that is no setting, a login of another mechanism than
    PLAIN and SCRAM in ``sasl.jaas.config``, and a store that OpenSSL does not read.
    """
    java = read_properties(path)
    settings = {**_store(java, "truststore", path), **_store(java, "keystore", path), **_login(java, path)}
    if java.get("ssl.endpoint.identification.algorithm") == "":
        java["ssl.endpoint.identification.algorithm"] = "none"
    if "sasl.mechanisms" in java:  # librdkafka has both names
        java["sasl.mechanism"] = java.pop("sasl.mechanisms")
    return {**java, **settings}


def broker_settings(bootstrap: str, conf: Path | None) -> dict[str, str]:
    """The settings of a client of the broker at an address: those of a file, if there is one, and the address.

    Raises ``UsageError`` as :func:`read_client_settings` does.
    """
    login = {} if conf is None else read_client_settings(conf)
    return {**login, "bootstrap.servers": bootstrap}


def read_properties(path: Path) -> dict[str, str]:
    """The settings of a file, as they stand there; raises ``UsageError``."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{str(path)!r} cannot be read as settings of Kafka's client", detail=str(error), hint=_FORM
        ) from error
    settings = {}
    for number, line in _logical_lines(text):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"line {number} of {str(path)!r} is no setting of Kafka's client",
                detail=f"it begins with {line.split()[0][:20]!r}, and has no NAME=",
                hint=_FORM,
            )
        settings[name.strip()] = _unescaped(value.strip(), f"line {number} of {str(path)!r}")
    return settings


def write_for_spark(settings: Mapping[str, str], path: Path) -> list[str]:
    """Write the settings that Spark's Kafka clients need to a file that its owner alone can read; returns their names.

    ``settings`` has the names of the C client, the file Java's. Certificates and keys are in the file itself: the paths
    of this machine need not be those of the cluster. Raises ``UsageError`` for a setting that Java's client has not.
    """
    java = java_settings(settings)
    write_secret(path, "".join(f"{name}={_escaped(value)}\n" for name, value in java.items()))
    return list(java)


def write_secret(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, in the place of one that is there."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def spark_options(path: str, names: Iterable[str]) -> dict[str, str]:
    """Options of Spark's Kafka source and sink (and of the exactly-once sink) that refer to settings in a file.

    ``path`` is the file as driver and executors see it; without ``names`` there are no options.
    """
    found = {f"kafka.{name}": f"${{file:{path}:{name}}}" for name in names}
    provider = {f"kafka.{PROVIDERS}": "file", f"kafka.{PROVIDERS}.file.class": FILE_PROVIDER}
    return {**provider, **found} if found else {}


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The login and the certificates in Java's names, of settings in the names of the C client.

    Other settings are left out: they are of the clients of this machine. Raises ``UsageError`` for a setting of a
    login that Java's client has not.
    """
    left = {name: value for name, value in settings.items() if name.startswith(SECURITY)}
    java = _java_login(left)
    if trusted := _pem(left, "ssl.ca", "CERTIFICATE"):
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
    key, chain = _pem(left, "ssl.key", "KEY"), _pem(left, "ssl.certificate", "CERTIFICATE")
    if chain:
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
    elif "ssl.keystore.location" in left:
        java["ssl.keystore.type"] = "PKCS12"
    if "ssl.endpoint.identification.algorithm" in left:
        algorithm = left.pop("ssl.endpoint.identification.algorithm")
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if left.get("enable.ssl.certificate.verification", "true").lower() == "true":
        left.pop("enable.ssl.certificate.verification", None)
    java |= {name: left.pop(name) for name in _SAME_FOR_SPARK if name in left}
    if left:
        raise UsageError(
            f"the setting {min(left)!r} is one of the C client, and Spark's Kafka client has none like it",
            detail="Spark reads and writes Kafka with Java's client",
            hint="leave it out; certificates are ssl.ca.location, ssl.certificate.location and ssl.key.location",
        )
    return java


def store_settings(which: str, kind: str, location: str, password: str) -> dict[str, str] | None:
    """The settings of the C client for a ``truststore`` or a ``keystore`` of Java's.

    ``kind`` is ``PEM``, ``PKCS12`` or ``JKS``. ``None`` for a store that OpenSSL does not read.
    """
    if kind == "PEM" and which == "truststore":
        return {"ssl.ca.location": location}
    if kind == "PEM":
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind == "PKCS12" and which == "keystore":
        return {"ssl.keystore.location": location, "ssl.keystore.password": password}
    return None


def jaas_login(text: str) -> tuple[str, str, str] | None:
    """``PLAIN`` or ``SCRAM``, user name and password of a JAAS configuration; ``None`` if it is another login's."""
    module = _MODULE.fullmatch(text)
    if module is None:
        return None
    options = {
        match[1]: _unquoted(match[2] or match[3] or match[4] or "") for match in _OPTION.finditer(module[2])
    }
    if not {"username", "password"} <= options.keys():
        return None
    return module[1].upper(), options["username"], options["password"]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with what continues them, and their numbers; comments and empty lines are left out."""
    begun, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        part = line.rstrip("\r").lstrip()
        if not begun:
            first = number
            if not part or part[0] in "#!":
                continue
        begun += part
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield first, begun
        begun = ""
    if begun:
        yield first, begun


def _unescaped(value: str, where: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code in _ESCAPED:
            return _ESCAPED[code]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code.isalnum():
            raise UsageError(
                f"{where} has a backslash before {code!r}, which means nothing in a file of settings",
                hint="write a backslash as two: \\\\",
            )
        return code

    return _ESCAPE.sub(one, value)


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    kept = text.strip(" ")
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return "\\u0020" * before + kept + "\\u0020" * (after if kept else 0)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _login(java: dict[str, str], path: Path) -> dict[str, str]:
    """User name and password of ``sasl.jaas.config``, which is taken out of ``java``."""
    text = java.pop("sasl.jaas.config", None)
    if text is None:
        return {}
    found, mechanism = jaas_login(text), java.get("sasl.mechanism", java.get("sasl.mechanisms", ""))
    if found is None:
        raise UsageError(
            f"sasl.jaas.config in {str(path)!r} is no login of PLAIN or SCRAM",
            detail="its module is neither PlainLoginModule nor ScramLoginModule, or it has no username and password, or"
            " no semicolon at its end",
            hint='write org.apache.kafka.common.security.scram.ScramLoginModule required username="…" password="…";'
            " other mechanisms have the C client's own settings (sasl.oauthbearer.*, sasl.kerberos.*)",
        )
    if not mechanism.upper().startswith(found[0]):
        raise UsageError(
            f"sasl.mechanism in {str(path)!r} is {mechanism or 'not set'!r}, and sasl.jaas.config is of {found[0]}",
            hint="set sasl.mechanism to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, as the broker wants it",
        )
    return {"sasl.username": found[1], "sasl.password": found[2]}


def _store(java: dict[str, str], which: str, path: Path) -> dict[str, str]:
    """The files of a Java store for the C client; what it has of its own is taken out of ``java``."""
    prefix = f"ssl.{which}"
    java.pop(f"{prefix}.type", None)
    renamed = {"truststore": {"certificates": "ssl.ca.pem"}}
    renamed["keystore"] = {"certificate.chain": "ssl.certificate.pem", "key": "ssl.key.pem"}
    settings = {
        c: java.pop(f"{prefix}.{name}") for name, c in renamed[which].items() if f"{prefix}.{name}" in java
    }
    location, password = java.pop(f"{prefix}.location", None), java.pop(f"{prefix}.password", None)
    if location is None:
        return settings
    kind = _kind(Path(location), f"{prefix}.location in {str(path)!r}")
    files = store_settings(which, kind, location, password or "")
    if files is not None:
        return {**settings, **files}
    raise UsageError(
        f"{prefix}.location in {str(path)!r} is {location!r}, a store of type {kind}",
        detail="the C client reads PEM files, and of key stores also PKCS#12",
        hint=_TO_PEM[which],
    )


_TO_PEM = {
    "truststore": "export its certificates as PEM: keytool -exportcert -rfc -alias ALIAS -keystore STORE -file ca.pem;"
    " then set ssl.truststore.type=PEM and ssl.truststore.location=ca.pem",
    "keystore": "convert it: keytool -importkeystore -srckeystore STORE -destkeystore client.p12 -deststoretype PKCS12;"
    " then set ssl.keystore.type=PKCS12 and ssl.keystore.location=client.p12",
}


def _kind(location: Path, what: str) -> str:
    """What a store is, by its first bytes: ``PEM``, ``PKCS12`` or ``JKS``."""
    try:
        with location.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise UsageError(
            f"{what} is {str(location)!r}, which cannot be read",
            detail=str(error),
            hint="name a file that exists on this machine",
        ) from error
    if head.startswith((b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")):
        return "JKS"
    return "PKCS12" if head.startswith(b"\x30") else "PEM"


def _java_login(left: dict[str, str]) -> dict[str, str]:
    """``sasl.jaas.config`` for the user name and password of the C client, which are taken out of ``left``."""
    user, password = left.pop("sasl.username", None), left.pop("sasl.password", "")
    if user is None:
        return {}
    mechanism = left.get("sasl.mechanism", "")
    module = _MODULES.get(mechanism.upper().partition("-")[0])
    if module is None:
        raise UsageError(
            f"sasl.mechanism is {mechanism or 'not set'!r}, and there is a sasl.username",
            detail="a user name and a password are a login of PLAIN or SCRAM",
            hint="set sasl.mechanism to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, as the broker wants it",
        )
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password)]
    return {
        "sasl.jaas.config": f'org.apache.kafka.common.security.{module} required username="{quoted[0]}"'
        f' password="{quoted[1]}";'
    }


def _pem(left: dict[str, str], prefix: str, wanted: str) -> str:
    """The PEM blocks of a kind, of a file or of the setting itself; both are taken out of ``left``."""
    location, text = left.pop(f"{prefix}.location", None), left.pop(f"{prefix}.pem", "")
    if location is not None:
        try:
            text = Path(location).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{prefix}.location is {location!r}, which cannot be read",
                detail=str(error),
                hint="name a file in PEM that exists on this machine",
            ) from error
    blocks = [match for match in _PEM_BLOCK.finditer(text) if match[1].endswith(wanted)]
    if (location or text) and not blocks:
        raise UsageError(
            f"{prefix}.{'location' if location else 'pem'} has no {wanted.lower()} in PEM",
            detail=f"there is no block -----BEGIN {'PRIVATE ' if wanted == 'KEY' else ''}{wanted}-----",
            hint="convert it to PEM",
        )
    for match in blocks:
        if match[1] in ("RSA PRIVATE KEY", "EC PRIVATE KEY"):
            raise UsageError(
                f"{prefix}.{'location' if location else 'pem'} has a key of the form {match[1]!r}",
                detail="Java's client reads PKCS#8 only (BEGIN PRIVATE KEY)",
                hint="convert it: openssl pkcs8 -topk8 -nocrypt -in KEY -out KEY.pem",
            )
    return "\n".join(match[0] for match in blocks) + "\n" if blocks else ""
