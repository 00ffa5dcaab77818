"""SASL of both sides, pure: mechanisms, messages, tokens, and the configuration that names them."""
