"""What the figures of `python -m bench versus-kafka` mean, and how they are measured."""

from __future__ import annotations

from bench.versus_figures import MEMBERS, PARTITIONS, REBALANCE_AIM
from proving.brokers import STOCK_JVM

COMMAND = "python -m bench versus-kafka --write docs/benchmarks.md"
INTRODUCTION = (
    "Measured in one run on one machine, in turns, round by round; every figure is the median of its rounds. The ratio "
    "says how many times better Equipoise is: Kafka's figure by ours where less is better (s, MB, ms/MB), ours by "
    "Kafka's where more is better (MB/s, 1/s). Above 1 is in our favour.",
    "Both run with their default settings. Kafka is one node, broker and controller, on a JVM with the flags of its "
    f"own start script ({' '.join(flag for flag in STOCK_JVM if flag.startswith('-X'))}). Equipoise keeps its data on "
    "disk and acknowledges what is durable (fdatasync); Kafka acknowledges what is in the page cache, because it "
    "counts on replicas. The column flush=never is Equipoise with Kafka's way of writing.",
)
MACHINE = (
    "Start: from the start of the process until a client gets its address in the answer to a Metadata request, with a "
    "data directory that an earlier start has made, after a clean stop. Resident memory (RSS) is read 1 s later, and "
    "after each round of the load below. Equipoise maps the files that it reads, and the pages that it has touched "
    "count, though they are the kernel's page cache, which Kafka fills as well: hence the last row."
)
LOAD = (
    "confluent-kafka produces random bytes with acks=all to 4 partitions, then reads them from the beginning. 1 MB is "
    "10^6 bytes of record values. CPU is that of all threads of a process: of a JVM with its compiler and collector, "
    "of ours with fdatasync. Rounds of the same load on each broker that come first and do not count, so that the JVM "
    "has compiled what is hot: {warm_ups}. Throughput is what the client reaches on the same cores: as long as its "
    "CPU per MB is above the broker's, it is the limit."
)
REQUESTS = (
    "{connections} members, each in a group and on a connection of its own, with one request under way: answers per "
    "CPU second of the broker, all its threads and its part of the kernel. Before it, {seconds:g} s of the same load "
    "on each broker, unmeasured. Kafka answers a commit when it is in the page cache, Equipoise when it is durable; "
    "flush=never compares like with like. The wall rate is what the machine reached while the load was made on the "
    "same cores."
)
_REBALANCE = (
    f"{MEMBERS} consumers of each client as nobody has configured them, on a topic with {PARTITIONS} partitions and no "
    "records. Each transition comes when the group has been calm for one to two heartbeat intervals. Rebalance: from "
    "the first callback of any member to the last assignment. Whole: from its cause to the last assignment. Unowned: "
    "how long a partition had no owner, the mean of all. The aim is a ratio of "
    f"{REBALANCE_AIM:g} for joins and leaves.\n\n"
    "Equipoise tells of a rebalance in the answer to a heartbeat that it holds, in a round trip; Kafka with the next "
    "heartbeat, which comes within 3 s. Held are heartbeats of clients known to bear it: confluent-kafka, kafka-python "
    "and Java. KafkaJS awaits each heartbeat before it goes on, and aiokafka does not say who it is: both are answered "
    "at once, as by Kafka, and gain nothing. kafka-python acts on the news with its next poll, which here comes every "
    "300 ms: that is what it takes on Equipoise."
)
TRANSITIONS = {
    "join": f"{_REBALANCE}\n\nThe {MEMBERS}th member starts. Members whose heartbeats come together, as after a "
    "rebalance, call back together: then most of the time passes before the first callback, and shows in the whole "
    "alone. A cooperative join takes two rebalances, and when the second begins no member has a heartbeat under way "
    "yet: that one waits for the next heartbeat, on both brokers.",
    "leave": f"One of {MEMBERS} members closes; the first callback is its own, when it stops.",
    "crash": f"One of {MEMBERS} members gets SIGKILL. Its session timeout is 6 s, the shortest that both brokers allow "
    "by default, and both wait for its end: of the whole time and of the time without owner this is the most.",
}
FIRST_JOINS = (
    f"{MEMBERS - 1} consumers join a new group at the same time: from their start to the last assignment. Both brokers "
    "wait 3 s for more members (group.initial.rebalance.delay.ms), and again if some have come meanwhile."
)
