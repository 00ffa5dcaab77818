"""What the figures of `python -m bench versus-kafka` mean, and how they are measured."""

from __future__ import annotations

from bench.versus.figures import COOPERATIVE_JOIN_AIM, MEMBERS, PARTITIONS, RATED, REBALANCE_AIM
from proving.brokers import STOCK_JVM

COMMAND = "python -m bench versus-kafka --write docs/benchmarks.md"
INTRODUCTION = (
    "Both brokers were measured in one run on one machine, in turns, round by round. Every figure is the median of its "
    "rounds. The ratio says how many times better Equipoise is: Kafka's figure divided by ours if less is better (s, "
    "MB, ms/MB), ours divided by Kafka's if more is better (MB/s, 1/s). A ratio above 1 is in our favour.",
    "Both brokers have their default settings. Kafka is one node, broker and controller, on a JVM with the flags of "
    f"its own start script ({' '.join(flag for flag in STOCK_JVM if flag.startswith('-X'))}). Equipoise keeps its data "
    "on disk, and acknowledges a record when it is durable (fdatasync). Kafka acknowledges a record in the page cache, "
    "because it relies on replicas. The column flush=never is Equipoise with Kafka's way of writing.",
)
MACHINE = (
    "Start: from the start of the process until a client gets its address in the answer to a Metadata request. The "
    "data directory is that of an earlier start, after a clean stop. The modules of Equipoise are compiled to "
    "bytecode, as in an install. Resident memory (RSS) is read 1 s later, and after each round of the load below. "
    "Equipoise maps the files that it reads. The pages that it has touched count as resident, though they belong to "
    "the kernel's page cache, which Kafka fills as well. The last row leaves them out."
)
LOAD = (
    "confluent-kafka produces random bytes with acks=all to 4 partitions, then reads them from the beginning. 1 MB is "
    "10^6 bytes of record values. CPU is that of all threads of a process, with compiler and collector for the JVM. "
    "Threads of the kernel that write files, and sync them for Equipoise, are not counted. Each broker first gets "
    "unmeasured rounds of the same load, so that the JVM has compiled its hot code: {warm_ups}. The client runs on the "
    "same cores. While its CPU per MB is above the broker's, the client limits the throughput. Both use plain text "
    "here; `python -m bench broker --listener SSL` and `python -m bench consumer --listener SSL` measure the CPU that "
    "TLS takes; [broker-security.md](broker-security.md#what-tls-costs) has the ratios beside encryption alone, the "
    "floor that OpenSSL sets."
)
REQUESTS = (
    "{connections} members, each in its own group and on its own connection, have one request in flight each. The "
    "figure is answers per CPU second of the broker: all its threads and its part of the kernel, without the kernel's "
    "own threads, which take some 2 us to sync a commit of Equipoise. Each broker first gets {seconds:g} s of the same "
    "load, unmeasured. Kafka answers a commit when it is in the page cache, Equipoise when it is durable; flush=never "
    "compares like with like. The wall rate is the rate of the machine while the load generator ran on the same cores."
)
_REBALANCE = (
    f"{MEMBERS} consumers of each client, with default settings, share a topic with {PARTITIONS} partitions and no "
    "records. Before each transition the group is calm for one to two heartbeat intervals. Rebalance: from the first "
    "callback of any member to the last assignment. Whole: from the cause to the last assignment. Unowned: the time "
    f"for which a partition had no owner, the mean of all. The aim is a ratio of {REBALANCE_AIM:g} for "
    f"{', '.join(RATED)}, and of {COOPERATIVE_JOIN_AIM:g} for their cooperative joins.\n\n"
    "Consumer: `group.protocol=consumer`. The broker assigns, and sets the heartbeat interval (5 s) and the session "
    "timeout (45 s).\n\n"
    "Equipoise tells a member of a rebalance in the answer to a held heartbeat, within a round trip. Kafka tells it in "
    "the answer to the next heartbeat, which comes within 3 s, or 5 s with the consumer protocol. Equipoise holds the "
    "heartbeats of clients that can bear it: those of confluent-kafka, Java and its own consumer for at least "
    "nine tenths of their interval. Java commits by the same connection every 5 s, which ends a hold: a transition in "
    "the rest of the interval waits for the next heartbeat. What bounds the others:\n"
    "- confluent-kafka joins when it has a third connection. librdkafka opens it 50 ms after the first (half of "
    "`reconnect.backoff.ms`). The rebalance itself takes 3 ms.\n"
    "- kafka-python is held for at most 1.8 s of 3 s, because some applications set its request timeout to 2 s: a "
    "transition in the rest of the interval waits for the next heartbeat. It acts on the news in its next poll, which "
    "here comes every 300 ms.\n"
    "- aiokafka is held for at most 1.8 s too, and only under its default client id. After a rebalance it sends its "
    "next heartbeat an interval later: a transition before that waits.\n"
    "- KafkaJS awaits each heartbeat before it fetches again, so it is answered at once, as by Kafka: it hears of a "
    "rebalance with its next heartbeat.\n"
    "- franz-go awaits the answer in the loop that also looks for new topics, so it is answered at once: with its next "
    "heartbeat too.\n"
    "- sarama, which is not measured here, is answered at once: the end of a session awaits the heartbeat."
)
TRANSITIONS = {
    "join": f"{_REBALANCE}\n\nThe {MEMBERS}th member starts. Members whose heartbeats come together, as after a "
    "rebalance, call back together. Most of the time then passes before the first callback, and shows only in the "
    "whole. On Kafka a cooperative join takes two rebalances, and the second waits for the next heartbeats. Equipoise "
    "rebalances such groups incrementally: it calls only those members that lose something, and nobody waits for the "
    "others.",
    "leave": f"One of {MEMBERS} members closes. The first callback is its own, when it stops.",
    "crash": f"One of {MEMBERS} members gets SIGKILL, on both brokers at the same time, and in several groups "
    "together. Kafka waits until its session expires (45 s by default in Java, librdkafka, kafka-python and franz-go, "
    "30 s in KafkaJS, 10 s in aiokafka). That makes up most of the whole time and of the time without an owner. "
    "Equipoise sees that the connections of the process are closed, and waits for it to come back: for 2 s "
    "(group.lost.connection.grace.ms), and in a classic group until its next heartbeat would have been due.",
}
FIRST_JOINS = (
    f"{MEMBERS - 1} consumers join a new group at the same time. The figure is the time from their start to the last "
    "assignment. Kafka waits 3 s for more members of a classic group (group.initial.rebalance.delay.ms), and again if "
    "some have come meanwhile. With the consumer protocol it gives the first member everything at once, and computes "
    "the next target a second later, which members learn with their heartbeats. Equipoise ends both waits when nobody "
    "has come for 250 ms (group.initial.rebalance.delay.quiet.ms)."
)
