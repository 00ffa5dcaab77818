"""Groups under load, large groups, many groups, restarts, and stock members."""
