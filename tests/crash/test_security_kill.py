"""The broker is killed by SIGKILL while credentials are being changed: no acknowledged change is lost."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from equipoise.wire.apis.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from equipoise.wire.apis.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest
from tests.broker.rawclient import RawClient
from tests.crash.warm import WarmBroker
from tests.security.test_credentials import deletion, upsertion

KILLS = [4, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
USERS = 4


class Changes:
    """Changes one user again and again, and remembers what was acknowledged and what was under way."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.acknowledged: int | None = None  # iterations of the credential; None: there is none
        self.attempted: int | None = None
        self.count = 0

    def run(self, address: str) -> None:
        """Until the broker is gone."""
        try:
            with RawClient(address) as client:
                while True:
                    self._change(client)
        except (OSError, EOFError, AssertionError):
            return

    def _change(self, client: RawClient) -> None:
        removes = self.acknowledged is not None and self.count % 3 == 2
        self.attempted = None if removes else 4096 + self.count % 10_000
        request = AlterUserScramCredentialsRequest(
            deletions=[deletion(self.user)] if removes else [],
            upsertions=[] if removes else [upsertion(self.user, iterations=self.attempted or 0)],
        )
        (result,) = client.call(request).results
        if result.error_code:
            raise RuntimeError(result)
        self.acknowledged = self.attempted
        self.count += 1

    def check(self, found: int | None) -> None:
        """The change under way may be there or not."""
        assert found in (self.acknowledged, self.attempted)
        self.acknowledged = found


def kept(address: str) -> dict[str, int]:
    with RawClient(address) as client:
        results = client.call(DescribeUserScramCredentialsRequest(users=None)).results
    return {one.user: one.credential_infos[0].iterations for one in results}


def change_until_killed(broker: WarmBroker, changes: list[Changes], moments: random.Random) -> None:
    threads = [threading.Thread(target=one.run, args=(broker.address,)) for one in changes]
    aims = [one.count + moments.randrange(1, 40) for one in changes]
    for thread in threads:
        thread.start()
    while all(one.count < aim for one, aim in zip(changes, aims, strict=True)):
        threads[0].join(0.001)
        assert all(thread.is_alive() for thread in threads), "a change was refused"
    broker.kill()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("settings", [{}, {"internal.log.segment.bytes": 4096, "log.cleaner.backoff.ms": 20}])
def test_acknowledged_changes_survive_every_kill(
    tmp_path: Path, moments: random.Random, settings: dict[str, object], kills: int
) -> None:
    """The second time with many small segments, and compaction all the while."""
    changes = [Changes(f"user-{number}") for number in range(USERS)]
    broker = WarmBroker(tmp_path / "data", tmp_path / "log", settings)
    for _ in range(kills):
        broker.start()
        found = kept(broker.address)
        for one in changes:
            one.check(found.get(one.user))
        change_until_killed(broker, changes, moments)
    with broker:
        found = kept(broker.address)
        for one in changes:
            one.check(found.get(one.user))
