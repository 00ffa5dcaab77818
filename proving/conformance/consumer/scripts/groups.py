"""`consumer` groups in every state, to begin a script with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proving.conformance.consumer.steps import ack, arrive, away, beat, depart, guest, guest_sync, settled
from proving.conformance.scripts.groups import enter, stable
from proving.conformance.steps import Step, join, leave, simple_commit

# "a" holds 0 to 3 of t, at epoch 2.
ONE: list[Step] = [arrive("a")]
# "a" holds 0 and 1, "b" holds 2 and 3, both at epoch 3.
TWO: list[Step] = settled("a", "b")
# "b" waits for "a", which has not heard of it.
JOINED: list[Step] = [arrive("a"), arrive("b")]
# "a" was told to give up 2 and 3, and "b" waits for them.
REVOKING: list[Step] = [*JOINED, beat("a")]

STATES: Mapping[str, Sequence[Step]] = {
    "an unknown group": [],
    "an Empty group": [arrive("a"), depart("a")],
    "a Stable group": TWO,
    "a group without a target": [*TWO, arrive("c"), depart("c")],
    "a Reconciling group": REVOKING,
    "a group with an absent static member": [*settled("a", "P"), away("P")],
    "a group with a classic member": [arrive("a"), guest("c"), beat("a"), ack("a"), guest("c"), guest_sync("c")],
    "a simple group": [simple_commit("s")],
    "an Empty classic group": [*stable("x"), leave("x")],
    "a Stable classic group": stable("x", "y"),
    "a classic group in its join phase": [*stable("x"), *enter("y")],
    "a classic group in its sync phase": [*stable("x"), join("x", protocols=("range", "sticky"))],
}
