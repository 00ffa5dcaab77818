"""AlterClientQuotas (49): sets and removes quotas (KIP-546).

v1  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled, WithError
from equipoise.wire.apis.k48_describe_client_quotas import EntityData, ValueData
from equipoise.wire.schema import Message, Struct, field


class OpData(ValueData):
    remove: bool = field("bool")


class AlterClientQuotasEntry(Struct):
    entity: list[EntityData] = field([EntityData])
    ops: list[OpData] = field([OpData])


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    entries: list[AlterClientQuotasEntry] = field([AlterClientQuotasEntry])
    validate_only: bool = field("bool")


class AlterClientQuotasResult(WithError):
    entity: list[EntityData] = field([EntityData])


class AlterClientQuotasResponse(Throttled, Message, api_key=49, versions="0-1", flexible="1+"):
    entries: list[AlterClientQuotasResult] = field([AlterClientQuotasResult])
