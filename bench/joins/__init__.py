"""The same join under every way to rebalance: figures, and a picture of who owned what, when."""
