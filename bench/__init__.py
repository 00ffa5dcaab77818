"""`python -m bench`: figures, measured beside peers in one run."""
