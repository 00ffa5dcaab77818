"""How loaded members must be, and the flows that find it."""

from __future__ import annotations

from equipoise.assignors.sticky_core.flow import FlowNetwork
from equipoise.assignors.sticky_core.layers import Demand, Layer, layers


def found(demand: Demand) -> list[Layer]:
    sorted_inside = [Layer(sorted(one.bundles), sorted(one.classes), one.least, one.larger) for one in layers(demand)]
    return sorted(sorted_inside)


def test_equal_loads_are_one_layer() -> None:
    assert found(Demand([5, 5], [2, 2], [[0, 1], [1]])) == [Layer([0, 1], [0, 1], 2, 2)]


def test_what_does_not_fit_is_a_layer_of_its_own() -> None:
    """Nine for two members alone; the others have four, whatever one does."""
    assert found(Demand([9, 4], [2, 2], [[0], [0, 1]])) == [Layer([0], [0], 4, 1), Layer([1], [1], 2, 0)]


def test_layers_that_can_exchange_are_one() -> None:
    """5 / 2 and 7 / 3: members of both have two or three, and a partition of the second may go to the first."""
    assert found(Demand([5, 7], [2, 3], [[0], [0, 1]])) == [Layer([0, 1], [0, 1], 2, 2)]


def test_whole_loads_do_not_exchange() -> None:
    assert found(Demand([4, 7], [2, 3], [[0], [1]])) == [Layer([0], [0], 2, 0), Layer([1], [1], 2, 1)]


def test_a_class_without_topics() -> None:
    assert found(Demand([3], [1, 2], [[0]])) == [Layer([], [1], 0, 0), Layer([0], [0], 3, 0)]


class TestFlow:
    def test_cheap_paths_first_and_back_where_it_helps(self) -> None:
        """The cheapest path, 0-1-2-3, blocks the two that carry more: the flow goes back from 2 to 1."""
        network = FlowNetwork(4)
        arcs = [network.add(*arc) for arc in ((0, 1, 1, 0), (1, 3, 1, 3), (0, 2, 1, 3), (2, 3, 1, 0), (1, 2, 1, 0))]
        assert network.fill(0, 3) == 2
        assert [network.flow(arc) for arc in arcs] == [1, 1, 1, 1, 0]

    def test_of_equal_amounts_the_cheapest(self) -> None:
        network = FlowNetwork(3)
        dear, cheap = network.add(0, 1, 5, 2), network.add(0, 1, 5, 1)
        network.add(1, 2, 6)
        assert network.fill(0, 2) == 6
        assert (network.flow(dear), network.flow(cheap)) == (1, 5)

    def test_what_is_full_is_not_reached(self) -> None:
        network = FlowNetwork(3)
        network.add(0, 1, 2)
        network.add(1, 2, 1)
        assert network.fill(0, 2) == 1
        assert [network.reached(node) for node in range(3)] == [True, True, False]

    def test_it_goes_on_from_a_flow_that_is_given(self) -> None:
        network = FlowNetwork(3)
        first, second = network.add(0, 1, 3, flow=2), network.add(1, 2, 3, flow=2)
        assert network.fill(0, 2) == 1
        assert (network.flow(first), network.flow(second)) == (3, 3)
