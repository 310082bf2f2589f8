"""The run's token in the forms that Hadoop's own clients take: a delegation token, and a file of credentials.

Both carry the run's token as their password. They neither expire nor can be cancelled: they end with the run.
"""

from __future__ import annotations

import base64
import binascii

KIND = "WEBHDFS delegation"
MAGIC = b"HDTS\x00"
"""Begins a file of credentials that holds Writables."""
ONE_BYTE_MAX = 127
"""The greatest length that Hadoop writes in one byte; a second byte holds lengths up to 255."""
TWO_BYTES = 0x8F


def encoded(token: str, owner: str, service: str) -> str:
    """Return the text that the parameter `delegation` takes, as GETDELEGATIONTOKEN answers it."""
    return base64.urlsafe_b64encode(_written(token, owner, service)).rstrip(b"=").decode()


def credentials(token: str, owner: str, service: str) -> bytes:
    """Return the file that HADOOP_TOKEN_FILE_LOCATION names: Spark and others then show the token to `service`."""
    return MAGIC + b"\x01" + _text(service) + _written(token, owner, service) + b"\x00"


def secret_of(shown: bytes) -> bytes:
    """Return the password of an encoded token, b"" of anything else."""
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
    # Version, owner, renewer, real user; then four numbers of zero: issued, greatest date, sequence, key.
    identifier = b"\x00" + _text(owner) + _text(owner) + _text("") + b"\x00" * 4
    return _sized(identifier) + _sized(token.encode()) + _text(KIND) + _text(service)


def _text(value: str) -> bytes:
    return _sized(value.encode())


def _sized(data: bytes) -> bytes:
    size = len(data)
    return (bytes([size]) if size <= ONE_BYTE_MAX else bytes([TWO_BYTES, size])) + data
