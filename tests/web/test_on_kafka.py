"""The page on Apache Kafka: what members do is on it, and what cannot be known there is said."""

from __future__ import annotations

import pytest

from equipoise.client import Admin, TopicPartition
from proving.brokers import KafkaBroker
from tests.web.conftest import Watched
from tests.web.test_console_command import Member, await_true, console, owners

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
GROUP, TOPIC = "console-etl", "console-orders"


def test_members_and_their_rebalances(kafka: KafkaBroker, watched: Watched) -> None:
    servers = kafka.bootstrap_servers
    with Admin(servers) as admin:
        admin.create_topic(TOPIC, 6)
    with Member(servers, "first", topic=TOPIC, group_id=GROUP), console(servers, "--allow-actions") as (_, address):
        page = watched.opened(f"{address}/groups")
        page.wait_for_selector(f"#list >> text={GROUP}")
        page.click(f"#list >> text={GROUP}")
        page.wait_for_selector("header >> text=group records")
        page.wait_for_selector("html[data-ready]", state="attached")
        second = Member(servers, "second", topic=TOPIC, group_id=GROUP)
        await_true(lambda: owners(page, GROUP) == ["first"] * 3 + ["second"] * 3)
        page.wait_for_selector("#why >> text=second")
        page.wait_for_selector("#why >> text=Not known there")  # the cause is a conclusion
        page.wait_for_selector("#members >> text=Members, 2")
        assert page.locator("#members [data-left]").count() == 0  # Kafka tells no deadline
        second.leave()
        page.wait_for_selector("#members >> text=Members, 1")
        page.goto(f"{address}/topics/{TOPIC}")
        page.wait_for_selector("#list dt:text-is('Partitions') + dd:text-is('6')")
        page.wait_for_selector("#list >> text=All have the broker's defaults")  # of its configs
        page.goto(f"{address}/cluster")
        page.wait_for_selector("text=What this source cannot tell")
        watched.check()


def test_offsets_are_reset_from_the_page(kafka: KafkaBroker, watched: Watched) -> None:
    servers, group_id = kafka.bootstrap_servers, "console-reset"
    with Admin(servers) as admin:
        admin.create_topic(f"{TOPIC}-reset", 1)
        admin.commit_offsets(group_id, {TopicPartition(f"{TOPIC}-reset", 0): 7})
    with console(servers, "--allow-actions") as (_, address):
        page = watched.opened(f"{address}/groups")
        page.click(f"#list >> text={group_id}")
        page.click("text=Reset offsets")
        page.fill("input[name=to]", "earliest")
        page.click("text=Show what would change")
        page.fill("input[name=name]", group_id)
        page.click("button.danger")
        page.wait_for_selector(f"text=1 offset of {group_id} changed")
        watched.check()
    with Admin(servers) as admin:
        assert [one.offset for one in admin.committed(group_id).values()] == [0]
