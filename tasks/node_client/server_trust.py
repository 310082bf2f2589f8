"""The TLS certificates that clients accept: those signed by the certificate authority of the run."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def trusting(authority: str) -> ssl.SSLContext:
    """Return an SSL context that accepts only servers whose certificate the authority (in PEM format) has
    signed.

    Server names are not checked, since hosts are known by names or addresses of any kind. Raises ssl.SSLError
    for invalid PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority)
    return context
