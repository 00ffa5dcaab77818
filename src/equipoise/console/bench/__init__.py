"""`equipoise bench`: figures, measured beside peers in one run."""
