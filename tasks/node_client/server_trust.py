"""TLS settings of clients: they accept only certificates that the certificate authority of the run has signed."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def trusting(authority: str) -> ssl.SSLContext:
    """Return an SSL context that accepts only servers signed by `authority` (PEM). Raises ssl.SSLError.

    Names are not checked, since hosts are known by names or addresses of any kind.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority)
    return context
