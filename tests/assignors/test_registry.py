"""Assignors by name, and the protocol that several of them have in common."""

from __future__ import annotations

import subprocess
import sys

import pytest

from equipoise.assignors import ASSIGNORS, RebalanceProtocol, assignor_named, common_protocol
from equipoise.wire.errors import UsageError


def test_each_has_its_name_and_is_new() -> None:
    for name in ASSIGNORS:
        assert assignor_named(name).name == name
        assert assignor_named(name) is not assignor_named(name)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no assignor 'round-robin': did you mean 'roundrobin'"):
        assignor_named("round-robin")
    with pytest.raises(UsageError, match="there are range, roundrobin"):
        assignor_named("?")


def test_the_protocol_of_a_member_is_that_of_all_its_assignors() -> None:
    both = [assignor_named("range"), assignor_named("cooperative-sticky")]
    assert common_protocol(both) is RebalanceProtocol.EAGER
    assert common_protocol(both[1:]) is RebalanceProtocol.COOPERATIVE
    assert assignor_named("sticky").protocols == {RebalanceProtocol.EAGER}


def test_only_a_leader_that_assigns_sticks_needs_numpy() -> None:
    """Numpy takes a tenth of a second and some 15 MB: not of every consumer."""
    lines = "import sys, equipoise.assignors as a; [a.assignor_named(n).user_data(['t']) for n in a.ASSIGNORS]"
    subprocess.run([sys.executable, "-c", f"{lines}; sys.exit('numpy' in sys.modules)"], check=True)
