"""Why a broker does not let a client in: TLS, certificates, no login; found out by another connection.

librdkafka reports a certificate that has expired, one of another host and one of an unknown issuer in the same words,
and a broker that wants a login as a connection that was closed. So the first broker that can be reached is connected to
once more: with Python's TLS, which has a code for each of them, and with one request that only a broker without a login
answers. Nothing is changed on the broker, and no password is sent.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator, Mapping

from tidemark.errors import KafkaRefused

PROBE_S = 3.0
"""Calibration: a broker answers or closes within 5-50 ms; one that is busy or suspended says nothing in that time."""
PORT = 9092
EXPIRED, NOT_YET_VALID, OTHER_HOST = (10,), (9,), (62, 64)
"""OpenSSL's codes: X509_V_ERR_CERT_HAS_EXPIRED, _CERT_NOT_YET_VALID, _HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH."""
LOGIN_HINT = (
    "name a file with the login: --kafka-conf FILE, or TIDEMARK_KAFKA_CONF; it has security.protocol, sasl.mechanism"
    " and sasl.jaas.config, or a certificate (ssl.keystore.location)"
)
_CLIENT_ID = b"tidemark"
_METADATA, _METADATA_VERSION, _VERSIONS = 3, 7, 18
"""Kafka's numbers of requests: Metadata, and ApiVersions."""


def refusal(settings: Mapping[str, str]) -> KafkaRefused | None:
    """Why the first broker that listens refuses a client with these settings, in the names of the C client.

    ``None`` if none listens, or if the reason is not to be seen.
    """
    for host, port in addresses(settings.get("bootstrap.servers", "")):
        try:
            return _refusal(host, port, settings)
        except OSError:
            continue
    return None


def addresses(bootstrap: str) -> Iterator[tuple[str, int]]:
    """Hosts and ports of ``HOST:PORT,…``."""
    for address in bootstrap.split(","):
        host, colon, port = address.strip().rpartition("://")[2].rpartition(":")
        if colon and port.isdecimal():
            yield host.strip("[]"), int(port)
        elif address.strip():
            yield address.strip().strip("[]"), PORT


def _refusal(host: str, port: int, settings: Mapping[str, str]) -> KafkaRefused | None:
    protocol = settings.get("security.protocol", "plaintext").upper()
    if protocol.endswith("SSL"):
        return _tls_refusal(host, port, settings)
    if _speaks_tls(host, port):
        return KafkaRefused(
            f"the broker at {host}:{port} wants TLS, and the client has not begun it",
            detail=f"security.protocol is {protocol}",
            hint="set security.protocol to SASL_SSL (a login over TLS) or SSL; " + LOGIN_HINT,
        )
    if protocol == "PLAINTEXT":
        with socket.create_connection((host, port), PROBE_S) as plain:
            return _no_login(host, port, protocol) if _is_closed(plain) else None
    return None


def _tls_refusal(host: str, port: int, settings: Mapping[str, str]) -> KafkaRefused | None:
    protocol = settings["security.protocol"].upper()
    context = _context(settings)
    with socket.create_connection((host, port), PROBE_S) as plain:
        try:
            secure = context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            return _distrusted(host, port, error)
        except (ssl.SSLError, ConnectionError) as error:
            if _is_alert(error):
                return _client_certificate(host, port, error, settings)
            if not _speaks_plain(host, port):
                return None
            return KafkaRefused(
                f"the broker at {host}:{port} does not speak TLS, and the client wants it",
                detail=f"security.protocol is {protocol}; {error}",
                hint="name the address of its listener for TLS, or set security.protocol to PLAINTEXT (SASL_PLAINTEXT)",
            )
        with secure:
            if protocol != "SSL":
                return None
            try:
                is_closed = _is_closed(secure)
            except ssl.SSLError as error:
                # In TLS 1.3 the broker refuses a certificate with its first answer, not in the handshake.
                return _client_certificate(host, port, error, settings)
            return _no_login(host, port, protocol) if is_closed else None


def _context(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https") != "none"
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    location, text = settings.get("ssl.ca.location"), settings.get("ssl.ca.pem")
    if location or text:
        context.load_verify_locations(location, cadata=text)
    else:
        context.load_default_certs()
    chain, key = settings.get("ssl.certificate.location"), settings.get("ssl.key.location")
    if chain:
        context.load_cert_chain(chain, key, settings.get("ssl.key.password", ""))
    return context


def _speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS handshake gets an answer in TLS, whatever it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), PROBE_S) as plain:
        try:
            context.wrap_socket(plain).close()
        except (ssl.SSLError, ConnectionError, TimeoutError) as error:
            return _is_alert(error)
    return True


def _is_closed(connection: socket.socket) -> bool:
    """Whether a broker closes the connection at a request for its metadata, as one that wants a login does.

    It answers a request for its versions before that. Where nothing does, no broker is behind the connection: a proxy
    that accepts for a broker which is starting, say.
    """
    connection.settimeout(PROBE_S)
    if not _tells_versions(connection):
        return False
    try:
        _send(
            connection, _METADATA, _METADATA_VERSION, struct.pack(">i?", 0, False)
        )  # of no topic, creating none
        return connection.recv(4) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def _tells_versions(connection: socket.socket) -> bool:
    """Whether a broker answers the request that it answers to everybody, and before a login (KIP-35, KIP-43)."""
    try:
        _send(connection, _VERSIONS, 0)
        (left,) = struct.unpack(">i", _read(connection, 4))
        return bool(len(_read(connection, left)) == left)
    except ssl.SSLError:
        raise
    except (OSError, struct.error):
        return False


def _read(connection: socket.socket, many: int) -> bytes:
    """So many bytes, fewer where the connection ends."""
    found = b""
    while len(found) < many and (part := connection.recv(many - len(found))):
        found += part
    return found


def _send(connection: socket.socket, request: int, version: int, body: bytes = b"") -> None:
    head = struct.pack(">hhih", request, version, 1, len(_CLIENT_ID)) + _CLIENT_ID
    connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)


def _speaks_plain(host: str, port: int) -> bool:
    """Whether a broker answers without TLS."""
    try:
        with socket.create_connection((host, port), PROBE_S) as plain:
            plain.settimeout(PROBE_S)
            return _tells_versions(plain)
    except OSError:
        return False


def _is_alert(error: Exception) -> bool:
    return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def _distrusted(host: str, port: int, error: ssl.SSLCertVerificationError) -> KafkaRefused:
    code, detail = error.verify_code, error.verify_message
    if code in EXPIRED or code in NOT_YET_VALID:
        return KafkaRefused(
            f"the certificate of the broker at {host}:{port}, or of its issuer, "
            + ("has expired" if code in EXPIRED else "is not valid yet"),
            detail=detail,
            hint="have the certificate renewed, and look at the clock of this machine",
        )
    if code in OTHER_HOST:
        return KafkaRefused(
            f"the certificate of the broker at {host}:{port} is not for the host {host!r}",
            detail=detail,
            hint="name the broker as its certificate does (--bootstrap); where that cannot be, an empty"
            " ssl.endpoint.identification.algorithm leaves the name unchecked",
        )
    return KafkaRefused(
        f"the certificate of the broker at {host}:{port} is of an issuer that this client does not trust",
        detail=detail,
        hint="name the issuer's certificate in PEM: ssl.truststore.type=PEM and ssl.truststore.location=FILE"
        " (ssl.ca.location of the C client)",
    )


def _client_certificate(
    host: str, port: int, error: Exception, settings: Mapping[str, str]
) -> KafkaRefused | None:
    if "ssl.certificate.pem" in settings or "ssl.keystore.location" in settings:
        return None  # this certificate was not shown: Python's TLS reads files in PEM only
    shown = settings.get("ssl.certificate.location")
    what = f"the client's certificate in {shown!r}" if shown else "a client without a certificate"
    reason = str(getattr(error, "reason", "") or error).replace("_", " ").lower()
    return KafkaRefused(
        f"the broker at {host}:{port} does not accept {what}",
        detail=f"it ended the handshake: {reason}",
        hint="it may have expired, or be of an issuer that the brokers do not trust"
        if shown
        else "set ssl.keystore.type=PEM and ssl.keystore.location=FILE (ssl.certificate.location and ssl.key.location"
        " of the C client)",
    )


def _no_login(host: str, port: int, protocol: str) -> KafkaRefused:
    wanted = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
    return KafkaRefused(
        f"the broker at {host}:{port} wants a login, and the client has none",
        detail=f"security.protocol is {protocol}, and the broker closed the connection at the first request",
        hint=f"set security.protocol to {wanted}; {LOGIN_HINT}",
    )
