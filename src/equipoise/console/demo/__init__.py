"""`equipoise demo` and `make run`: members of one group come and go, and every order is accounted for."""
