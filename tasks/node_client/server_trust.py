"""What a client of a TLS server trusts: the certificate authority of its run and nobody else."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def trusting(authority: str) -> ssl.SSLContext:
    """Return the settings of clients that take servers with a certificate signed by that authority (PEM) only.

    A server's name is not compared: hosts are known by addresses of any kind. Raises ssl.SSLError for what is no PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority)
    return context
