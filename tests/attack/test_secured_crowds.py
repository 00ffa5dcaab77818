"""Crowds before a secured listener, beside honest clients: some never speak, some guess passwords."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.server_process import free_port
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from tests.attack.control import ControlGroup
from tests.attack.meter import MB, Meter
from tests.broker.rawclient import RawClient, request_frame
from tests.broker.secured import ALICE, context, tls_settings
from tests.broker.test_sasl import verifier, write_users
from tests.crash.served import ServedBroker

P99_HELD_S = 0.1
OF_EACH = 50 * 1024


class Scene:
    """A control group on a plain listener, and a listener with TLS and SASL to attack."""

    def __init__(self, served: ServedBroker, secured: str) -> None:
        self.secured = secured
        self.meter = Meter(served.pid)
        self.control = ControlGroup(served.address, self.meter).start()

    def assert_not_noticed(self) -> None:
        beats = self.control.beats_until_now(50)
        assert self.control.errors == []
        assert self.control.revocations == 0
        assert beats.p99_held < P99_HELD_S, str(beats)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    plain, secured = (f"127.0.0.1:{free_port()}" for _ in range(2))
    write_users(tmp_path / "users", "alice:plain:alice-secret", verifier("bob", "two"))
    settings = tls_settings(tmp_path, "SASL_SSL") | {
        "listeners": f"PLAINTEXT://{plain},SASL_SSL://{secured}",
        "sasl.users.file": tmp_path / "users",
        "sasl.enabled.mechanisms": "PLAIN",
        "group.initial.rebalance.delay.ms": 0,
        "request.receive.timeout.ms": 10_000,
    }
    del settings["sasl.jaas.config"]
    with ServedBroker(tmp_path / "data", tmp_path / "log", settings, address=plain) as served:
        made = Scene(served, secured)
        yield made
        made.control.stop()
        assert "Traceback" not in served.log.read_text(), served.log.read_text()


@pytest.mark.parametrize("count", [300, pytest.param(8000, marks=pytest.mark.soak)])
def test_connections_that_never_speak_cost_little_and_end_at_the_deadline(scene: Scene, count: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    RawClient(scene.secured, tls=context()).close()
    scene.control.beats_until_now(10)
    scene.meter.forget_peak()
    before = scene.meter.resident()
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(RawClient(scene.secured)) for _ in range(count)]
        with RawClient(scene.secured, tls=context()) as honest:
            assert honest.authenticate("PLAIN", ALICE).error_code == 0
        for client in silent:
            client.wait_closed()
    taken = scene.meter.peak() - before
    assert taken < count * OF_EACH + 10 * MB, f"{taken} bytes for {count} connections"
    scene.assert_not_noticed()


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.soak)])
def test_guesses_are_not_noticed_by_others(scene: Scene, count: int) -> None:
    """Each is checked by a slow hash, on a thread."""
    scene.control.beats_until_now(10)
    guess = request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    guess += request_frame(SaslAuthenticateRequest(auth_bytes=b"\0bob\0guess"), 2)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(RawClient(scene.secured, tls=context()))
            client.send_bytes(guess)
        honest = stack.enter_context(RawClient(scene.secured, tls=context()))
        assert honest.authenticate("PLAIN", ALICE).error_code == 0
    scene.assert_not_noticed()
