"""The kinds of groups that are hunted in."""

from __future__ import annotations

from typing import NamedTuple

_COOPERATIVE = "assignors=cooperative-sticky"


class Kind(NamedTuple):
    """`members`: what each may be, in the words of the command `member`. Of all members the share `static` has an
    instance id. `config`: settings of the coordinator."""

    name: str
    members: tuple[str, ...]
    static: float = 0.15
    config: str = ""

    @property
    def has_classic(self) -> bool:
        """Whether some members speak the classic protocol."""
        return any("assignors=" in one for one in self.members)

    @property
    def has_consumer(self) -> bool:
        """Whether some members speak the consumer protocol."""
        return any("protocol=consumer" in one for one in self.members)


KINDS = (
    Kind("eager", ("assignors=range", "assignors=roundrobin,range")),
    Kind("sticky", ("assignors=sticky",)),
    Kind("cooperative", (_COOPERATIVE,)),
    Kind("upgrade", ("assignors=range", "assignors=range,cooperative-sticky"), static=0.0),
    Kind("static", (_COOPERATIVE,), static=0.8),
    Kind("static-eager", ("assignors=range",), static=0.8),
    Kind("consumer", ("protocol=consumer",)),
    Kind("mixed", ("protocol=consumer", _COOPERATIVE), static=0.0),
    Kind("incremental", (_COOPERATIVE,), config="group.rebalance.incremental=all"),
    Kind("incremental-eager", ("assignors=range",), config="group.rebalance.incremental=all"),
    Kind(
        "incremental-mixed", (_COOPERATIVE, "protocol=consumer"), static=0.0, config="group.rebalance.incremental=all"
    ),
)
