"""The TLS settings of a run: the authority that clients trust, and the certificate and key of servers."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field

from schedbed.tasks.node_client.server_trust import trusting


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS settings of a run as PEM texts. None in place of a `Tls` means connections in clear text.

    `certificate` and `key` are empty for pure clients: attempts and the files of a run have only `authority`.
    """

    authority: str
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    def public(self) -> Tls:
        """Return a copy with only `authority`, which is enough to connect and contains no private key."""
        return Tls(authority=self.authority)

    def connecting(self) -> ssl.SSLContext:
        """Return the SSL context of clients, which trust only the run's authority."""
        return trusting(self.authority)

    def serving(self) -> ssl.SSLContext:
        """Return the SSL context of servers. Raises ValueError without a private key.

        The key stays in memory and is never written to a file system.
        """
        if not self.key:
            raise ValueError("no private key here to serve with")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # A client that closes with unread tickets would reset the connection.
        held = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            with os.fdopen(held, "w", closefd=False) as file:
                file.write(self.certificate + self.key)
            context.load_cert_chain(f"/proc/self/fd/{held}")
        finally:
            os.close(held)
        return context


def scheme_of(tls: Tls | None) -> str:
    """Return the scheme of URLs of the run's servers: http or https."""
    return "http" if tls is None else "https"
