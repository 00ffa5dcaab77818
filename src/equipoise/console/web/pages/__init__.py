"""HTML in Python: each page is a function from views to elements. htpy escapes every name."""
