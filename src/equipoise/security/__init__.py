"""Security of both sides, pure: sessions, SASL mechanisms, principals, access rules. No socket, no clock, no thread."""
