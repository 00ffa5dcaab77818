"""The sticky core for different subscriptions. It has three steps: the load of each class of members (layers.py), the
number of partitions of each bundle of topics in each class (a flow of least cost, in which keeping a partition costs
nothing), and the members inside a class (uniform.py).

The balance is the best possible. Moves are the fewest, except where the flow must displace partitions that members
could keep. In small groups they are always the fewest: there each member is a class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.assignors.sticky_core import uniform
from equipoise.assignors.sticky_core.flow import FlowNetwork
from equipoise.assignors.sticky_core.layers import Demand, layers
from equipoise.assignors.sticky_core.numbering import NOBODY, Flags, Ints, Numbering
from equipoise.assignors.sticky_core.uniform import holdings

_SMALL = 20_000  # arcs of a network in which each member has its own node
_SOURCE, _SINK = 0, 1


class Mixed(NamedTuple):
    """Partitions that are alike to all members form a bundle. Members with the same topics and, if racks matter, the
    same rack form a class."""

    bundle_of: Ints  # of each partition
    class_of: Ints  # of each member
    subscribed: Flags  # by bundle and class
    near: Flags  # the same, in the same rack; all, if racks do not matter


def balance(owner: Ints, group: Mixed, numbering: Numbering) -> Ints:
    """Returns the next owner of each partition."""
    terms = _terms(group, numbering)
    owner = _without(terms, owner, ~terms.open)
    kept = _keep(terms, _without(terms, owner, ~terms.near))
    result = _place(terms, owner, kept)
    moves, fewest = np.count_nonzero(result != owner), np.count_nonzero(kept == NOBODY)
    if (moves == fewest and terms.near.all()) or np.sum(terms.open @ terms.size) > _SMALL:
        return result
    return _place(terms.for_each_member(), owner, kept)


class _Terms(NamedTuple):
    """The result of the layers: each member has the `least` of its class, and `larger` members of a layer have one
    more."""

    numbering: Numbering
    bundle_of: Ints  # of each partition
    supply: Ints  # of each bundle
    class_of: Ints  # of each member
    size: Ints  # of each class
    open: Flags  # by bundle and class: subscribed to, and of the same layer
    near: Flags  # the same: where it should be
    least: Ints  # of each class
    layer_of: Ints  # of each class
    larger: Ints  # of each layer

    def for_each_member(self) -> _Terms:
        """The same problem with each member as a class of its own."""
        members = len(self.class_of)
        return self._replace(
            class_of=np.arange(members),
            size=np.ones(members, np.int64),
            open=self.open[:, self.class_of],
            near=self.near[:, self.class_of],
            least=self.least[self.class_of],
            layer_of=self.layer_of[self.class_of],
        )

    def classes_of(self, owner: Ints) -> Ints:
        return np.append(self.class_of, NOBODY)[owner]

    def cells(self, owner: Ints) -> Ints:
        """The number of partitions of each bundle in each class."""
        owned = np.flatnonzero(owner != NOBODY)
        cell = self.bundle_of[owned] * len(self.size) + self.class_of[owner[owned]]
        return np.bincount(cell, minlength=self.open.size).reshape(self.open.shape)


def _terms(group: Mixed, numbering: Numbering) -> _Terms:
    supply = np.bincount(group.bundle_of, minlength=len(group.subscribed))
    size = np.bincount(group.class_of, minlength=group.subscribed.shape[1])
    classes = [np.flatnonzero(row).tolist() for row in group.subscribed]
    found = layers(Demand(supply.tolist(), size.tolist(), classes))
    layer_of = np.zeros(len(size), np.int64)
    layer_of_bundle = np.zeros(len(supply), np.int64)
    for number, layer in enumerate(found):
        layer_of[layer.classes] = number
        layer_of_bundle[layer.bundles] = number
    return _Terms(
        numbering=numbering,
        bundle_of=group.bundle_of,
        supply=supply,
        class_of=group.class_of,
        size=size,
        open=group.subscribed & (layer_of_bundle[:, None] == layer_of),
        near=group.near,
        least=np.array([layer.least for layer in found])[layer_of],
        layer_of=layer_of,
        larger=np.array([layer.larger for layer in found]),
    )


def _without(terms: _Terms, owner: Ints, misplaced: Flags) -> Ints:
    """Takes away the owner of a partition in the wrong class: the owner no longer subscribes to it, or best balance
    moves it to another layer."""
    nobodys = np.zeros((len(terms.supply), 1), np.bool_)
    wrong = np.append(misplaced, nobodys, axis=1)
    return np.where(wrong[terms.bundle_of, terms.classes_of(owner)], NOBODY, owner)


def _keep(terms: _Terms, owner: Ints) -> Ints:
    """The partitions that members could keep if nothing else mattered. They release those that others can use best."""
    held = holdings(owner, len(terms.class_of))
    least = terms.least[terms.class_of]
    quota = least.copy()
    for layer, larger in enumerate(terms.larger.tolist()):
        quota[np.flatnonzero((held > least) & (terms.layer_of[terms.class_of] == layer))[:larger]] += 1
    missing = np.bincount(terms.class_of, np.maximum(least - held, 0), len(terms.size))
    use = np.unique(terms.open @ missing, return_inverse=True)[1]
    return uniform.release(owner, quota, terms.numbering, use[terms.bundle_of])


def _place(terms: _Terms, owner: Ints, kept: Ints) -> Ints:
    """Assigns bundles to classes, partitions to classes, and partitions to members."""
    return _within_classes(terms, owner, _classes(terms, owner, kept, _shares(terms, owner, kept)))


def _shares(terms: _Terms, owner: Ints, kept: Ints) -> Ints:
    """The number of partitions of each bundle in each class: a flow from bundles to classes that begins with what is
    kept. A move costs 1; a partition outside its owner's rack costs more than all moves together."""
    bundles, classes = terms.open.shape
    first_class = 2 + bundles
    first_layer = first_class + classes
    network = FlowNetwork(first_layer + len(terms.larger))
    begun = terms.cells(kept)
    can_stay = np.where(terms.near & (terms.size > 1), begun, terms.cells(owner))
    far = len(owner) + 1
    for bundle, (supply, flow) in enumerate(zip(terms.supply.tolist(), begun.sum(1).tolist(), strict=True)):
        network.add(_SOURCE, 2 + bundle, supply, flow=flow)
    arcs = []
    for bundle, number in np.argwhere(terms.open).tolist():
        ends, cost = (2 + bundle, first_class + number), 0 if terms.near[bundle, number] else far
        arcs.append(network.add(*ends, int(terms.supply[bundle]), cost=cost + 1))
        flow = int(begun[bundle, number])
        network.add(*ends, int(can_stay[bundle, number]), cost=cost, flow=flow)  # its number is 2 more
    _add_quotas(network, terms, kept, first_class)
    network.fill(_SOURCE, _SINK)
    shares = np.zeros_like(begun)
    shares[terms.open] = [network.flow(arc) + network.flow(arc + 2) for arc in arcs]
    return shares


def _add_quotas(network: FlowNetwork, terms: _Terms, kept: Ints, first_class: int) -> None:
    """Arcs from classes to the sink: the least load directly, the extra partition of some members through the layer.
    A class of several members that loses such an extra again releases one partition more than the flow can see."""
    first_layer = first_class + len(terms.size)
    held = holdings(kept, len(terms.class_of))
    more = np.bincount(terms.class_of, held > terms.least[terms.class_of], len(terms.size)).astype(np.int64)
    unseen = int(terms.size.max() > 1)
    held_by_class = np.bincount(terms.class_of, held, len(terms.size)).astype(np.int64)
    for number, layer in enumerate(terms.layer_of.tolist()):
        node, plus = first_class + number, int(more[number])
        least = int(terms.least[number] * terms.size[number])
        network.add(node, _SINK, least, flow=int(held_by_class[number]) - plus)
        network.add(node, first_layer + layer, plus, flow=plus)
        network.add(node, first_layer + layer, int(terms.size[number]) - plus, cost=unseen)
    for layer, larger in enumerate(terms.larger.tolist()):
        network.add(first_layer + layer, _SINK, larger, flow=int(more[terms.layer_of == layer].sum()))


def _classes(terms: _Terms, owner: Ints, kept: Ints, shares: Ints) -> Ints:
    """The class of each partition: its owner's, up to the class's share, preferring partitions that the owner keeps."""
    count = len(terms.size)
    classes = terms.classes_of(owner)
    owned = np.flatnonzero(owner != NOBODY)
    cell = terms.bundle_of[owned] * count + classes[owned]
    order = np.lexsort((kept[owned] == NOBODY, uniform.narrow(cell)))
    owned, cell = owned[order], cell[order]
    displaced = uniform.places(cell) >= shares.ravel()[cell]
    classes[owned[displaced]] = NOBODY
    free = np.flatnonzero(classes == NOBODY)
    free = free[np.argsort(uniform.narrow(terms.bundle_of[free]), kind="stable")]
    missing = shares.ravel() - np.bincount(cell[~displaced], minlength=shares.size)
    classes[free] = np.repeat(np.tile(np.arange(count), len(terms.supply)), missing)
    return classes


def _within_classes(terms: _Terms, owner: Ints, classes: Ints) -> Ints:
    """Balances each class as a group of equal subscriptions over the partitions of the class."""
    own = np.where(terms.classes_of(owner) == classes, owner, NOBODY)
    by_class = np.argsort(terms.class_of, kind="stable")
    place = np.full(len(terms.class_of) + 1, NOBODY)  # of each member in its class; NOBODY's is behind the last
    place[by_class] = uniform.places(terms.class_of[by_class])
    members_of = np.split(by_class, np.cumsum(terms.size))
    result: Ints = by_class[np.cumsum(terms.size) - terms.size][classes]  # right for classes of one
    by_class = np.argsort(uniform.narrow(classes), kind="stable")
    partitions_of = np.split(by_class, np.cumsum(np.bincount(classes, minlength=len(terms.size))))
    for number in np.flatnonzero(terms.size > 1).tolist():
        members, partitions = members_of[number], partitions_of[number]
        within = Numbering(np.diff(np.searchsorted(partitions, terms.numbering.starts)).tolist())
        result[partitions] = members[uniform.balance(place[own[partitions]], len(members), within)]
    return result
