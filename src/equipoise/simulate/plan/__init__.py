"""What would it cost? A model of groups of thousands of members, at the level of heartbeats and rounds.

The state machines themselves would take hours for 10,000 members that restart one by one. The model keeps what costs:
when each member hears of a rebalance, how long the join phase lasts, which partitions nobody reads meanwhile. The tests
compare it with the state machines in a world, and with real clients on a broker.
"""

from equipoise.simulate.plan.costs import Costs, Planned
from equipoise.simulate.plan.planner import STRATEGIES, plan
from equipoise.simulate.plan.scenarios import SCENARIOS
from equipoise.simulate.plan.settings import PlanSettings

__all__ = ["SCENARIOS", "STRATEGIES", "Costs", "PlanSettings", "Planned", "plan"]
