"""The protocol of groups before coordinators, pure: views of ZooKeeper's nodes in, actions out.

A group has no leader. Every consumer registers an ephemeral node, watches those of the others, and at every change
works out the whole assignment alone (assignment.py) from what it reads (group.py, views.py). It owns a partition while
its owner node stands; a consumer that wants a partition of another waits for that node to go.

| a consumer  | waits for                                  | which ends with                                   |
|-------------|--------------------------------------------|---------------------------------------------------|
| is settled  | a member, a topic, a session to come or go | an event: SESSION, TOPICS or REBALANCE            |
| rebalances  | nothing: it reads, releases, and claims    | a claim of its whole share, or a node that blocks |
| is blocked  | the release of that node, or the back-off  | another attempt, and after the last one an error  |
| is in doubt | the connection (safe mode)                 | a look: the same session goes on, or all is lost  |

`policy.py` is what a consumer does in both modes, `faithful.py` how Kafka did it, `safe.py` how it is done without
harm. Both are generators of actions (steps.py): nodes.py has those on ZooKeeper, actions.py the rest. The connector, or
a simulation, carries them out, and brings the nodes, the clock and the chance.
"""
