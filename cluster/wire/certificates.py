"""Creation of a run's certificates in memory: a certificate authority and a server certificate."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from schedbed.cluster.wire.tls import Tls
from schedbed.tasks.errors import BadInput

if TYPE_CHECKING:
    from cryptography import x509

LIFE = timedelta(days=90)
"""Validity of certificates: longer than a run, and longer than most clusters stay up."""
SKEW = timedelta(days=2)
"""Maximum time by which a host's clock may be behind."""


def check_certificates() -> None:
    if importlib.util.find_spec("cryptography") is None:
        raise BadInput("--tls: the package cryptography is missing, expected pip install 'schedbed[tls]'")


def make_certificates(life: timedelta = LIFE) -> Tls:
    """Create a certificate authority, and a certificate for the run's servers. Raises BadInput.

    The authority's private key is discarded, so that nothing more can be signed.
    """
    check_certificates()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    began = datetime.now(UTC) - SKEW
    signing, serving = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _name("schedbed run authority")

    def certificate(subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, signs: bool) -> str:
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(began)
            .not_valid_after(began + SKEW + life)
            .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
            )
            .sign(signing, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM).decode()

    return Tls(
        authority=certificate(issuer, signing, signs=True),
        certificate=certificate(_name("schedbed run"), serving, signs=False),
        key=serving.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


def _name(common_name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
