"""The TLS settings of a run: the certificate authority that clients trust, and the servers' certificate."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field

from schedbed.tasks.node_client.server_trust import trusting


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS settings of a run as PEM texts. In place of a `Tls`, None means connections in clear text.

    `authority` is the certificate that clients trust. `certificate` and `key` are the certificate and private
    key of servers. Both are empty in the files of a run, and in processes that only connect to servers, such
    as attempts.
    """

    authority: str
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    def public(self) -> Tls:
        """Return a copy with only `authority`. It is sufficient for clients and contains no private key."""
        return Tls(authority=self.authority)

    def connecting(self) -> ssl.SSLContext:
        """Return an SSL context for clients, which accepts only certificates of the run's authority."""
        return trusting(self.authority)

    def serving(self) -> ssl.SSLContext:
        """Return an SSL context for servers. Raises ValueError if there is no private key.

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
    """Return the scheme of the URLs of the run's servers: http if `tls` is None, and https otherwise."""
    return "http" if tls is None else "https"
