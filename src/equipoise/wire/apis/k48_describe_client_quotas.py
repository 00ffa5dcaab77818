"""DescribeClientQuotas (48): the quotas of the entities that match a filter (KIP-546).

v1  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled, WithError
from equipoise.wire.schema import Message, Struct, field


class ComponentData(Struct):
    """`match_type` 0: the name in `match`; 1: the default entity; 2: any entity of the type."""

    entity_type: str = field("string")
    match_type: int = field("int8")
    match: str | None = field("string", nullable=True)


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    """`strict`: entities with a type that the filter does not name are left out."""

    components: list[ComponentData] = field([ComponentData])
    strict: bool = field("bool")


class EntityData(Struct):
    """A name of null is the default entity."""

    entity_type: str = field("string")
    entity_name: str | None = field("string", nullable=True)


class ValueData(Struct):
    key: str = field("string")
    value: float = field("float64")


class EntryData(Struct):
    entity: list[EntityData] = field([EntityData])
    values: list[ValueData] = field([ValueData])


class DescribeClientQuotasResponse(Throttled, WithError, Message, api_key=48, versions="0-1", flexible="1+"):
    entries: list[EntryData] | None = field([EntryData], nullable=True)
