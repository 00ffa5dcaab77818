"""UUIDs as Kafka and Java write them."""

from __future__ import annotations

from base64 import urlsafe_b64encode


def dashed(uuid: bytes) -> str:
    """As Java writes a UUID: 36 characters."""
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def short(uuid: bytes) -> str:
    """As Kafka writes a UUID: 22 characters. Kafka: Uuid.toString."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()
