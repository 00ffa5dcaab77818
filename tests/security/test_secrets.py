"""A secret is text that nothing shows but `reveal`."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import asdict, dataclass

import pytest

from equipoise.security.secrets import NO_SECRET, Secret

TEXT = "s3kr1t"


@dataclass(frozen=True)
class Login:
    password: Secret = NO_SECRET


@pytest.mark.parametrize(
    "shown",
    [
        repr(Secret(TEXT)),
        str(Secret(TEXT)),
        f"{Secret(TEXT)}",
        f"{Secret(TEXT):>40}",
        f"{Secret(TEXT)!r}",
        "%s" % Secret(TEXT),  # noqa: UP031
        "%r" % Secret(TEXT),  # noqa: UP031
        repr(Login(Secret(TEXT))),
        str({"password": Secret(TEXT)}),
        str(asdict(Login(Secret(TEXT)))),
        str(ValueError(Secret(TEXT))),
    ],
)
def test_it_prints_as_stars(shown: str) -> None:
    assert TEXT not in shown
    assert "***" in shown


def test_it_is_no_text() -> None:
    with pytest.raises(TypeError):
        "".join([Secret(TEXT)])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        json.dumps(Secret(TEXT))


def test_it_is_compared_hashed_copied_and_pickled_by_its_value() -> None:
    secret = Secret(TEXT)
    assert secret.reveal() == TEXT
    assert secret == Secret(TEXT) != Secret("other")
    assert secret != TEXT
    assert {Login(secret): 1}[Login(Secret(TEXT))] == 1
    assert pickle.loads(pickle.dumps(secret)) == copy.deepcopy(secret) == secret
    assert not NO_SECRET
    assert secret
