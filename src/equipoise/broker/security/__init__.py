"""Authentication on the broker's loop: SASL on connections, users, keys of token issuers, certificates."""
