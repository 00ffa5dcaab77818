"""Quotas of users, client ids and IP addresses: which a request describes, and which records it asks for (KIP-546)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address

from equipoise.security.state import Entity, SecurityState, check_count
from equipoise.wire.apis.k48_describe_client_quotas import ComponentData, EntityData, EntryData, ValueData
from equipoise.wire.apis.k49_alter_client_quotas import AlterClientQuotasEntry, AlterClientQuotasResult, OpData
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.security_records import ClientQuotaKey, ClientQuotaValue, QuotaEntity, SecurityRecord

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE = "request_percentage", "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
_LONG_MAX, _INT_MAX = 2**63 - 1, 2**31 - 1
_FRACTION = 1e-6  # less than this is none (ClientQuotaControlManager.getErrorForIntegralQuotaValue)

# Keys of each kind of entity, with the largest value; None: fractions are allowed (QuotaConfig).
_OF_CLIENTS = {
    PRODUCER_BYTE_RATE: _LONG_MAX,
    CONSUMER_BYTE_RATE: _LONG_MAX,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_OF_IPS = {CONNECTION_CREATION_RATE: _INT_MAX}
_MOST_SORTED = 10_000  # Kafka's order is chance
_EXACT, _DEFAULT, _ANY = 0, 1, 2  # match types of a filter's component


# -- describe


def describe(state: SecurityState, components: Sequence[ComponentData], strict: bool) -> Iterator[EntryData | None]:
    """The entities that have every component, and if `strict` no other type (ClientQuotasImage.describe). None is
    another entity, or one that was removed meanwhile: between two of them the caller may do something else.

    Raises KafkaError."""
    wanted: dict[str, Callable[[str | None], bool]] = {}
    for one in components:
        if one.entity_type in wanted:
            raise _invalid(f"the filter names entity type {one.entity_type!r} twice")
        wanted[one.entity_type] = _matcher(one)
    if IP in wanted and len(wanted) > 1:
        raise _invalid("a filter of ip addresses goes with no other type")
    if strict and not wanted:
        return iter(())
    rows = list(state.quotas.items())
    if len(rows) <= _MOST_SORTED:
        rows.sort(key=_order)
    return (
        _entry(entity, quotas) if quotas and _matches(dict(entity), wanted, strict) else None for entity, quotas in rows
    )


def _matcher(one: ComponentData) -> Callable[[str | None], bool]:
    if not one.entity_type:
        raise _invalid("a component of the filter has no entity type")
    if one.entity_type not in (USER, CLIENT_ID, IP):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"entity type {one.entity_type!r} is not known")
    if one.match_type not in (_EXACT, _DEFAULT, _ANY):
        raise _invalid(f"match type {one.match_type} is not known")
    if (one.match is None) == (one.match_type == _EXACT):
        raise _invalid("an exact match needs a name, and no other match has one")
    return (lambda name: True) if one.match_type == _ANY else (lambda name: name == one.match)


def _matches(entity: dict[str, str | None], wanted: dict[str, Callable[[str | None], bool]], strict: bool) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    return all(kind in entity and matches(entity[kind]) for kind, matches in wanted.items())


def _order(row: tuple[Entity, object]) -> list[tuple[str, str]]:
    return [(kind, name or "") for kind, name in row[0]]


def _entry(entity: Entity, quotas: dict[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=value) for key, value in sorted(quotas.items())],
    )


# -- alter


class QuotaAlteration:
    """What becomes of one AlterClientQuotas: the records to write, and each entity's result
    (ClientQuotaControlManager.alterClientQuotas)."""

    def __init__(self, state: SecurityState, entries: Sequence[AlterClientQuotasEntry]) -> None:
        self._state = state
        self._errors: dict[Entity, KafkaError | None] = {}
        self.records: list[SecurityRecord] = []
        check_count(sum(len(entry.ops) for entry in entries))
        for entry in entries:
            entity = entity_of(entry.entity)
            if entity in self._errors:
                self._errors[entity] = _TWICE
                continue
            try:
                self.records += self._records(entity, entry.ops)
                self._errors[entity] = None
            except KafkaError as error:
                self._errors[entity] = error

    def results(self) -> list[AlterClientQuotasResult]:
        """The answer when the records are durable."""
        return [_result(entity, error) for entity, error in self._errors.items()]

    def _records(self, entity: Entity, ops: Sequence[OpData]) -> list[SecurityRecord]:
        """What an entity has already is not written again; what it does not have is removed without an error."""
        if len({op.key for op in ops}) < len(ops):
            raise _invalid("a quota key is there twice")
        allowed, current, records = _keys_of(entity), self._state.quotas.get(entity, {}), []
        for op in ops:
            if not op.remove:
                _check_value(allowed, op.key, op.value)
            if current.get(op.key) != (None if op.remove else op.value):
                records.append(_record(entity, op))
        return records


def entity_of(components: Sequence[EntityData]) -> Entity:
    """The entity of a request. Of a type that is there twice the last name counts (AlterClientQuotasRequest)."""
    return tuple(sorted({one.entity_type: one.entity_name for one in components}.items()))


def refused(entries: Sequence[AlterClientQuotasEntry], error: KafkaError) -> list[AlterClientQuotasResult]:
    """The same error for every entity of the request."""
    return [_result(entity_of(entry.entity), error) for entry in entries]


def _result(entity: Entity, error: KafkaError | None) -> AlterClientQuotasResult:
    return AlterClientQuotasResult(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else str(error),
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def _keys_of(entity: Entity) -> dict[str, int | None]:
    if not entity:
        raise _invalid("the quota entity is empty")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"entity type {kind!r} is not known: user, client-id or ip")
        if name == "":
            raise _invalid(f"a {kind} has no name; null stands for the default")
    names = dict(entity)
    if IP not in names:
        return _OF_CLIENTS
    if len(names) > 1:
        raise _invalid("an ip address goes with no other type")
    _check_ip(names[IP])
    return dict[str, int | None](_OF_IPS)


def _check_ip(name: str | None) -> None:
    """Kafka also takes host names that it can resolve; a broker that waits for a name server serves nobody."""
    try:
        ip_address(name or "0.0.0.0")
    except ValueError:
        raise _invalid(f"{name!r} is no IP address") from None


def _check_value(allowed: dict[str, int | None], key: str, value: float) -> None:
    if key not in allowed:
        raise _invalid(f"quota key {key!r} is not known for this entity: {', '.join(allowed)}")
    if not value > 0:  # not a number is not, either
        raise _invalid(f"{key} must be greater than 0")
    largest = allowed[key]
    if largest is None:
        return
    if value > largest:
        raise _invalid(f"{key} is too large: at most {largest}")
    if value % 1.0 > _FRACTION:
        raise _invalid(f"{key} must be a whole number")


def _record(entity: Entity, op: OpData) -> SecurityRecord:
    names = [QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity]
    key = ClientQuotaKey(entity=names, key=op.key)
    return SecurityRecord(key, None if op.remove else ClientQuotaValue(value=op.value))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


_TWICE = _invalid("the entity is in the request twice")  # made once: a small request can repeat it 30,000 times
