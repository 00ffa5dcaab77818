"""Flows through small networks: a maximum flow, of least cost among the maximum flows."""

from __future__ import annotations

_FAR = 1 << 62


class FlowNetwork:
    """A network of arcs with integer capacity and cost 0 or more. The numbers of an arc and its reverse differ in
    one bit."""

    def __init__(self, nodes: int) -> None:
        self._arcs: list[list[int]] = [[] for _ in range(nodes)]
        self._head: list[int] = []
        self._room: list[int] = []
        self._step: list[int] = []  # cost first, then the number of arcs
        self._distance: list[int] = []

    def add(self, tail: int, head: int, room: int, cost: int = 0, *, flow: int = 0) -> int:
        """Adds an arc and returns its number. The flow so far must be of least cost already."""
        arc = len(self._head)
        weight = cost * (len(self._arcs) + 1)
        self._head += head, tail
        self._room += room - flow, flow
        self._step += 1 + weight, 1 - weight
        self._arcs[tail].append(arc)
        self._arcs[head].append(arc ^ 1)
        return arc

    def flow(self, arc: int) -> int:
        """The flow through an arc: what it carries is the room of its reverse."""
        return self._room[arc ^ 1]

    def fill(self, source: int, sink: int) -> int:
        """Fills the network along the cheapest paths, the shortest first, and returns the added flow. Each round
        makes the path to the sink dearer or longer. The rounds are therefore bounded by costs times lengths."""
        added = 0
        for _ in range(len(self._arcs) ** 3):
            self._measure(source)
            if self._distance[sink] == _FAR:
                break
            added += self._push(source, sink)
        return added

    def reached(self, node: int) -> bool:
        """Whether the source still reaches the node after `fill`: the network is then full beyond it."""
        return self._distance[node] < _FAR

    def _measure(self, source: int) -> None:
        """Distances from the source along arcs with room. A flow of least cost has no negative cycle."""
        distance = self._distance = [_FAR] * len(self._arcs)
        distance[source] = 0
        frontier = {source}
        for _ in range(len(self._arcs)):
            nearer = set()
            for node in frontier:
                here = distance[node]
                for arc in self._arcs[node]:
                    if self._room[arc] > 0 and here + self._step[arc] < distance[self._head[arc]]:
                        distance[self._head[arc]] = here + self._step[arc]
                        nearer.add(self._head[arc])
            if not nearer:
                break
            frontier = nearer

    def _push(self, source: int, sink: int) -> int:
        """Pushes all flow that fits through paths of least distance. It visits an arc that leads nowhere once."""
        pushed = 0
        choice = [0] * len(self._arcs)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                pushed += self._fill_path(path)
                full = next(place for place, arc in enumerate(path) if self._room[arc] == 0)
                node = self._head[path[full] ^ 1]
                del path[full:]
            arc = self._next_arc(node, choice)
            if arc is not None:
                path.append(arc)
                node = self._head[arc]
            elif path:
                node = self._head[path.pop() ^ 1]
                choice[node] += 1
            else:
                return pushed

    def _next_arc(self, node: int, choice: list[int]) -> int | None:
        arcs, here, distance = self._arcs[node], self._distance[node], self._distance
        for place in range(choice[node], len(arcs)):
            arc = arcs[place]
            if self._room[arc] > 0 and distance[self._head[arc]] == here + self._step[arc]:
                choice[node] = place
                return arc
        choice[node] = len(arcs)
        return None

    def _fill_path(self, path: list[int]) -> int:
        amount = min(self._room[arc] for arc in path)
        for arc in path:
            self._room[arc] -= amount
            self._room[arc ^ 1] += amount
        return amount
