"""A lazily built DFA over names. It takes one dictionary look-up per character, whatever the pattern is.

A state is a set of nodes of the program: a byte for each node inside one large integer, so that a step of all threads
is an AND and a shift. Nodes without characters are then followed one by one, each at most once in a step. States are
kept up to a bound, and forgotten together: a pattern cannot make the memory grow, nor the time more than linear in
nodes and characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from equipoise.coordinator.consumer.regex.classes import WORD, Alphabet
from equipoise.coordinator.consumer.regex.nfa import Kind, Place, Program

MOST_STATES = 4_096
_MOST_BYTES = 16_000_000  # of the sets of all kept states
LEGAL = "".join(map(chr, (*range(0x61, 0x7B), *range(0x41, 0x5B), *range(0x30, 0x3A)))) + "._-"
_BYTE = 8
_PAUSE = 1_000  # nodes: well under a millisecond


class _State(dict[str, "_State"]):
    """The states that follow by character. What is missing is made when it is asked for."""

    __slots__ = ("_dfa", "accepts", "after_word", "begins", "nodes")

    def __init__(self, dfa: DFA, nodes: int, begins: bool, after_word: bool) -> None:
        self._dfa = dfa
        self.nodes = nodes
        self.begins = begins
        self.after_word = after_word
        self.accepts: bool | None = None  # if the name ends here; None: nobody has asked

    def __missing__(self, character: str) -> _State:
        following = self[character] = self._dfa.step(self, character)
        return following


class DFA:
    """Decides whether a name is matched as a whole. `work` counts the nodes that were looked at since the start.

    `alphabet` is that of the program. None: names are of topics, and one with a character that no topic has matches
    nothing.
    """

    def __init__(self, program: Program, alphabet: Alphabet | None = None) -> None:
        self._alphabet = alphabet
        self._size = len(program) + 1  # the last one stands for "matched"
        self._matched = 1 << _BYTE * len(program)
        self._targets = [_targets(place, node) for place, node in enumerate(program)] + [()]
        self._looks = {place: node.first for place, node in enumerate(program) if node.kind is Kind.LOOK}
        self._knows_words = any(Place(place) & (Place.BOUNDARY | Place.NO_BOUNDARY) for place in self._looks.values())
        self._empty = _set_of(self._size, [place for place, targets in enumerate(self._targets) if targets])
        self._by_mask = _places_by_mask(program)
        self._takers: dict[str, int] = {}  # nodes that take a character
        self._states: dict[tuple[int, bool, bool], _State] = {}
        self.most_states = max(16, min(MOST_STATES, _MOST_BYTES // self._size))
        self.work = 0
        self._start = self._state(1, True, False)

    @property
    def states(self) -> int:
        """How many states are kept."""
        return len(self._states)

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        return next(verdict for verdict in self.verdicts([name]) if verdict is not None)

    def verdicts(self, names: Iterable[str]) -> Iterator[bool | None]:
        """Says of each name whether it matches. In between it says None when it has worked for some time, so that
        the caller can do something else: a large program may take long for a single name."""
        for name in names:
            state, pause = self._start, self.work + _PAUSE
            for character in name:
                state = state[character]
                if self.work > pause:
                    pause = self.work + _PAUSE
                    yield None
            yield self._accepts(state)

    def _accepts(self, state: _State) -> bool:
        if state.accepts is None:
            closed = self._closure(state, after_word=state.after_word, before_word=False, ends=True)
            state.accepts = closed & self._matched != 0
        return state.accepts

    def step(self, state: _State, character: str) -> _State:
        """Makes the state behind a character."""
        takers = self._takers.get(character)
        if takers is None:
            takers = self._takers[character] = self._find_takers(character)
        is_word = ord(character) < 128 and WORD >> ord(character) & 1 == 1
        closed = self._closure(state, after_word=state.after_word, before_word=is_word, ends=False)
        self.work += 1
        return self._state((closed & takers) << _BYTE, False, is_word and self._knows_words)

    def _find_takers(self, character: str) -> int:
        if self._alphabet is None and character not in LEGAL:
            return 0
        place = ord(character) if self._alphabet is None else self._alphabet.place(ord(character))
        return _set_of(
            self._size, [node for mask, nodes in self._by_mask.items() if mask >> place & 1 for node in nodes]
        )

    def _state(self, nodes: int, begins: bool, after_word: bool) -> _State:
        key = nodes, begins, after_word
        known = self._states.get(key)
        if known is None:
            if len(self._states) >= self.most_states:
                self._forget()
            known = self._states[key] = _State(self, nodes, begins, after_word)
        return known

    def _forget(self) -> None:
        """Takes the states apart, because they hold each other. The first one stays, and so does any in use."""
        for state in self._states.values():
            state.clear()
        self._states = {(self._start.nodes, True, False): self._start}

    def _closure(self, state: _State, *, after_word: bool, before_word: bool, ends: bool) -> int:
        """Adds what is reached without a character, at this place of the name."""
        pending = _members(state.nodes & self._empty, self._size)
        if not pending:
            return state.nodes
        boundary = Place.BOUNDARY if after_word != before_word else Place.NO_BOUNDARY
        place = boundary | (Place.BEGIN if state.begins else 0) | (Place.END if ends else 0)
        reached = bytearray(state.nodes.to_bytes(self._size, "little"))
        targets_of, looks = self._targets, self._looks
        while pending:
            node = pending.pop()
            self.work += 1
            if node in looks and not looks[node] & place:
                continue
            for target in targets_of[node]:
                if not reached[target]:
                    reached[target] = 1
                    if targets_of[target]:
                        pending.append(target)
        return int.from_bytes(reached, "little")


def _targets(place: int, node: tuple[int, int, int]) -> tuple[int, ...]:
    kind, first, second = node
    if kind == Kind.SPLIT:
        return place + first, place + second
    if kind == Kind.JUMP:
        return (place + first,)
    return (place + 1,) if kind == Kind.LOOK else ()


def _places_by_mask(program: Program) -> dict[int, list[int]]:
    """The nodes of each class of characters."""
    found: dict[int, list[int]] = {}
    for place, node in enumerate(program):
        if node.kind is Kind.CHARACTERS:
            found.setdefault(node.first, []).append(place)
    return found


def _set_of(size: int, places: list[int]) -> int:
    flags = bytearray(size)
    for place in places:
        flags[place] = 1
    return int.from_bytes(flags, "little")


def _members(nodes: int, size: int) -> list[int]:
    if not nodes:
        return []
    flags = nodes.to_bytes(size, "little")
    found, place = [], flags.find(1)
    while place >= 0:
        found.append(place)
        place = flags.find(1, place + 1)
    return found
