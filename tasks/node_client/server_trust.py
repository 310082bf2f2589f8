"""The certificates that a client of a TLS server accepts: only those signed by the run's own authority."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def trusting(authority: str) -> ssl.SSLContext:
    """Return an SSL context that accepts only servers with a certificate signed by that authority (PEM).

    A server's name is not checked, since hosts are known by addresses of any kind. Raises ssl.SSLError for invalid
    PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority)
    return context
