"""The run's token in two encodings that Hadoop's clients read: a delegation token, and a credentials file.

The password in both encodings is the run's token, which cannot be canceled and is valid until the run ends.
"""

from __future__ import annotations

import base64
import binascii

KIND = "WEBHDFS delegation"
MAGIC = b"HDTS\x00"
"""The first bytes of a credentials file in the Writable format."""
ONE_BYTE_MAX = 127
"""The largest length encoded in one byte. Lengths up to 255 are encoded as `TWO_BYTES` and a byte."""
TWO_BYTES = 0x8F


def encoded(token: str, owner: str, service: str) -> str:
    """Return the run's token as a delegation token in text form, as in the answer to GETDELEGATIONTOKEN.

    `owner` is a user name, and `service` is HOST:PORT of the WebHDFS server.
    """
    return base64.urlsafe_b64encode(_written(token, owner, service)).rstrip(b"=").decode()


def credentials(token: str, owner: str, service: str) -> bytes:
    """Return the content of a credentials file, whose path can be given in HADOOP_TOKEN_FILE_LOCATION.

    The file contains the run's token for the user `owner` and the server `service` (HOST:PORT).
    """
    return MAGIC + b"\x01" + _text(service) + _written(token, owner, service) + b"\x00"


def secret_of(shown: bytes) -> bytes:
    """Return the password in an encoded delegation token, or b"" if `shown` is no delegation token."""
    try:
        data = base64.urlsafe_b64decode(shown + b"=" * (-len(shown) % 4))
    except (binascii.Error, ValueError):
        return b""
    parts: list[bytes] = []
    while data:
        length, start = data[0], 1
        if length == TWO_BYTES and len(data) > 1:
            length, start = data[1], 2
        if length > len(data) - start:
            return b""
        parts.append(data[start : start + length])
        data = data[start + length :]
    return parts[1] if len(parts) == 4 and parts[2] == KIND.encode() else b""


def _written(token: str, owner: str, service: str) -> bytes:
    # Version, owner, renewer and real user; then zeros for issue date, maximum date, sequence number and key id.
    identifier = b"\x00" + _text(owner) + _text(owner) + _text("") + b"\x00" * 4
    return _sized(identifier) + _sized(token.encode()) + _text(KIND) + _text(service)


def _text(value: str) -> bytes:
    return _sized(value.encode())


def _sized(data: bytes) -> bytes:
    size = len(data)
    return (bytes([size]) if size <= ONE_BYTE_MAX else bytes([TWO_BYTES, size])) + data
