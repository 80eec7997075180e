"""Certificates of a stack whose brokers want a login: an authority that lives for one call, and what it signs.

Keys are on elliptic curves (P-256), in PKCS#8 and PEM, which Java, OpenSSL and Python read alike. The authority's key
is never written to a file. Needs the package ``cryptography``, which is the extra ``security``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.errors import UsageError

VALID = timedelta(days=3650)
"""A stack that stays must not end because of its certificates."""
CLOCK_SKEW = timedelta(days=1)
"""A machine whose clock is set back must find a certificate valid."""


class Authority:
    """A certificate authority; raises ``UsageError`` where ``cryptography`` is not installed."""

    def __init__(self, name: str = "tidemark") -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as error:
            raise UsageError(
                "certificates cannot be made: this Python has no package cryptography",
                detail=str(error),
                hint="install it (pip install cryptography), or start a stack without --kafka-security",
            ) from error
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name
        now = datetime.now(UTC)
        self._certificate = self._signed(name, self._key.public_key(), (now - CLOCK_SKEW, now + VALID))

    @property
    def certificate(self) -> str:
        """Its own certificate, in PEM."""
        return _pem(self._certificate)

    def issue(
        self, name: str, hosts: Sequence[str] = (), valid: tuple[datetime, datetime] | None = None
    ) -> str:
        """A new key and its certificate (``CN=name``), for servers and clients, in PEM, one after the other.

        ``hosts`` are names and addresses under which a server is reached; ``valid`` is from when until when.
        """
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        now = datetime.now(UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        signed = self._signed(name, key.public_key(), valid or (now - CLOCK_SKEW, now + VALID), hosts)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private.decode() + _pem(signed)

    def _signed(
        self, name: str, key: Any, valid: tuple[datetime, datetime], hosts: Sequence[str] | None = None
    ) -> Any:
        """A certificate; without ``hosts`` it is the authority's own."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        is_own = hosts is None
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(valid[0])
            .not_valid_after(valid[1])
            .add_extension(x509.BasicConstraints(ca=is_own, path_length=0 if is_own else None), critical=True)
            .add_extension(_usage(is_own=is_own), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if not is_own:
            both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            made = made.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        if hosts:
            made = made.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        return made.sign(self._key, hashes.SHA256())


def _usage(*, is_own: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_own,
        key_cert_sign=is_own,
        crl_sign=is_own,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    text: bytes = certificate.public_bytes(Encoding.PEM)
    return text.decode()
