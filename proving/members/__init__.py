"""Members of consumer groups, of any client on any broker: each client in a process of its own, told what to do and
telling what happens by lines of JSON.

with Fleet(bootstrap_servers, log) as fleet, Members.of(fleet, "topic", assignor="range") as members:
    members.join("first", "confluent-kafka")
    members.join("second", "java")
    members.wait_settled(places_of("topic", 12))
"""
