"""Security of both sides, pure: sessions, SASL mechanisms, principals, access rules, secrets. No socket, no clock, no
thread."""
