"""TLS of both sides without a socket: stores, certificates, names of ciphers, and the principal of a certificate."""
