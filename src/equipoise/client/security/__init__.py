"""How a client reaches a secured cluster: settings of TLS and SASL, contexts of TLS."""
