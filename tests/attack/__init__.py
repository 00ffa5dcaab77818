"""Attacks on the broker. docs/attacks.md is the list of all attacks, with the tests that show what happens."""
