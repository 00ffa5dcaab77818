"""When the faults end, the group settles, and a group in which nothing happens writes nothing."""

from __future__ import annotations

from equipoise.simulate.world import GROUP, World


def check_rest(world: World, ms: int) -> None:
    """For so long nothing is written, and the group stays as it is."""
    size = len(world.coordinator.log)
    inputs = world.inputs
    world.advance(ms)
    written = len(world.coordinator.log) - size
    assert not written, f"{written} records are written in {ms} ms in which nothing happens"
    assert world.is_settled(), f"the group is not at rest:\n{world.describe()}"
    assert world.inputs > inputs or not world.consumers, "nobody says anything"
    group = world.shard.find(GROUP)
    assert group is None or group.state_word == "Stable", f"the group is {group.state_word}"
