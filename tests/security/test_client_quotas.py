"""AlterClientQuotas and DescribeClientQuotas, pure (ClientQuotaControlManager, ClientQuotasImage)."""

from __future__ import annotations

from math import inf, nan

import pytest

from equipoise.security.client_quotas import QuotaAlteration, describe
from equipoise.security.state import SecurityState
from equipoise.wire.apis.k48_describe_client_quotas import ComponentData, EntityData
from equipoise.wire.apis.k49_alter_client_quotas import AlterClientQuotasEntry, OpData
from equipoise.wire.errors import ErrorCode, KafkaError

Names = dict[str, str | None]
ALICE: Names = {"user": "alice"}


def entry(names: Names, *ops: tuple[str, float | None]) -> AlterClientQuotasEntry:
    """A value of None removes."""
    return AlterClientQuotasEntry(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def alter(state: SecurityState, *entries: AlterClientQuotasEntry) -> list[ErrorCode]:
    alteration = QuotaAlteration(state, entries)
    for record in alteration.records:
        state.apply(record)
    return [ErrorCode(result.error_code) for result in alteration.results()]


@pytest.fixture
def state() -> SecurityState:
    state = SecurityState()
    assert (
        alter(
            state,
            entry(ALICE, ("producer_byte_rate", 1000), ("request_percentage", 12.5)),
            entry({"user": None}, ("producer_byte_rate", 2000)),
            entry({"user": "alice", "client-id": "c"}, ("consumer_byte_rate", 3000)),
            entry({"user": "alice", "client-id": None}, ("consumer_byte_rate", 4000)),
            entry({"client-id": "c"}, ("controller_mutation_rate", 0.5)),
            entry({"ip": "127.0.0.1"}, ("connection_creation_rate", 10)),
        )
        == [ErrorCode.NONE] * 6
    )
    return state


class TestAlter:
    def test_set_change_and_remove(self, state: SecurityState) -> None:
        alice = (("user", "alice"),)
        alter(state, entry(ALICE, ("producer_byte_rate", 5), ("request_percentage", None)))
        assert state.quotas[alice] == {"producer_byte_rate": 5}
        alter(state, entry(ALICE, ("producer_byte_rate", None)))
        assert alice not in state.quotas

    def test_what_changes_nothing_writes_nothing(self, state: SecurityState) -> None:
        same = entry(ALICE, ("producer_byte_rate", 1000), ("consumer_byte_rate", None), ("unheard_of", None))
        assert QuotaAlteration(state, [same]).records == []
        assert alter(state, same) == [ErrorCode.NONE]

    @pytest.mark.parametrize(
        ("names", "op", "why"),
        [
            ({}, ("producer_byte_rate", 1), "empty"),
            ({"foo": "x"}, ("producer_byte_rate", 1), "'foo' is not known"),
            ({"user": ""}, ("producer_byte_rate", 1), "has no name"),
            ({"user": "a", "ip": "::1"}, ("connection_creation_rate", 1), "no other type"),
            ({"ip": "not an address"}, ("connection_creation_rate", 1), "no IP address"),
            ({"ip": "::1"}, ("producer_byte_rate", 1), "'producer_byte_rate' is not known"),
            (ALICE, ("connection_creation_rate", 1), "'connection_creation_rate' is not known"),
            (ALICE, ("producer_byte_rate", 0.0001), "whole number"),
            (ALICE, ("producer_byte_rate", 1.5), "whole number"),
            (ALICE, ("producer_byte_rate", 1e19), "too large"),
            (ALICE, ("producer_byte_rate", inf), "too large"),
            (ALICE, ("producer_byte_rate", nan), "greater than 0"),
            (ALICE, ("request_percentage", -1), "greater than 0"),
            ({"ip": "::1"}, ("connection_creation_rate", 2**31), "too large"),
        ],
    )
    def test_what_is_refused(self, names: Names, op: tuple[str, float], why: str) -> None:
        alteration = QuotaAlteration(SecurityState(), [entry(names, op)])
        (result,) = alteration.results()
        assert (alteration.records, result.error_code) == ([], ErrorCode.INVALID_REQUEST)
        assert why in (result.error_message or "")
        assert {one.entity_type: one.entity_name for one in result.entity} == names

    def test_zero_is_no_quota(self) -> None:
        zero = entry(ALICE)
        zero.ops = [OpData(key="producer_byte_rate", value=0.0, remove=False)]
        assert alter(SecurityState(), zero) == [ErrorCode.INVALID_REQUEST]

    def test_the_default_address_is_allowed(self) -> None:
        assert alter(SecurityState(), entry({"ip": None}, ("connection_creation_rate", 1))) == [ErrorCode.NONE]

    def test_the_same_key_twice(self) -> None:
        twice = entry(ALICE, ("producer_byte_rate", 1), ("producer_byte_rate", None))
        assert alter(SecurityState(), twice) == [ErrorCode.INVALID_REQUEST]

    def test_the_same_entity_twice(self) -> None:
        """As in Kafka the first is done, and the one result of the entity is the error."""
        state = SecurityState()
        first, second = entry(ALICE, ("producer_byte_rate", 1)), entry(ALICE, ("producer_byte_rate", 2))
        assert alter(state, first, second) == [ErrorCode.INVALID_REQUEST]
        assert state.quotas == {(("user", "alice"),): {"producer_byte_rate": 1}}

    def test_one_bad_entity_does_not_stop_the_others(self) -> None:
        state = SecurityState()
        assert alter(state, entry({"foo": None}), entry(ALICE, ("producer_byte_rate", 1))) == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
        ]
        assert len(state.quotas) == 1


EXACT, DEFAULT, ANY = 0, 1, 2


def component(kind: str, match_type: int = ANY, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


class TestDescribe:
    @pytest.mark.parametrize(
        ("components", "strict", "found"),
        [
            ([], False, 6),
            ([], True, 0),
            ([component("user")], False, 4),
            ([component("user")], True, 2),
            ([component("user", EXACT, "alice")], False, 3),
            ([component("user", EXACT, "alice")], True, 1),
            ([component("user", DEFAULT)], False, 1),
            ([component("user", EXACT, "alice"), component("client-id")], True, 2),
            ([component("user", EXACT, "alice"), component("client-id", DEFAULT)], True, 1),
            ([component("client-id")], False, 3),
            ([component("client-id", EXACT, "c")], True, 1),
            ([component("ip")], False, 1),
            ([component("user", EXACT, "bob")], False, 0),
        ],
    )
    def test_matching(self, state: SecurityState, components: list[ComponentData], strict: bool, found: int) -> None:
        assert sum(one is not None for one in describe(state, components, strict)) == found

    def test_values(self, state: SecurityState) -> None:
        (one,) = filter(None, describe(state, [component("user", EXACT, "alice")], strict=True))
        assert [(row.entity_type, row.entity_name) for row in one.entity] == [("user", "alice")]
        assert [(row.key, row.value) for row in one.values] == [
            ("producer_byte_rate", 1000.0),
            ("request_percentage", 12.5),
        ]

    @pytest.mark.parametrize(
        ("components", "code"),
        [
            ([component("")], ErrorCode.INVALID_REQUEST),
            ([component("foo")], ErrorCode.UNSUPPORTED_VERSION),
            ([component("user"), component("user", DEFAULT)], ErrorCode.INVALID_REQUEST),
            ([component("user", EXACT)], ErrorCode.INVALID_REQUEST),
            ([component("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
            ([component("user", ANY, "a")], ErrorCode.INVALID_REQUEST),
            ([component("user", 3)], ErrorCode.INVALID_REQUEST),
            ([component("user"), component("ip")], ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_filters_that_are_refused(self, components: list[ComponentData], code: ErrorCode) -> None:
        with pytest.raises(KafkaError) as refused:
            describe(SecurityState(), components, strict=False)
        assert refused.value.code is code
