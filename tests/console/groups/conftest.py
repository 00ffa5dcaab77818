from __future__ import annotations

import pytest

from equipoise.broker import Broker
from tests.commands import Command, Ended
from tests.watching.conftest import join as join
from tests.watching.conftest import produce as produce
from tests.watching.conftest import topic as topic


@pytest.fixture
def groups(command: Command, broker: Broker) -> Command:
    def call(*arguments: str) -> Ended:
        return command("groups", *arguments, "--utc", "-b", broker.bootstrap_servers)

    return call
