"""The columns of a record, as in Spark's own Kafka connector; a schema given by the user selects among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_FIELDS = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}


def spark_schema(*, include_headers: bool) -> StructType:
    """All columns that a query gets without a schema of its own."""
    return _struct([name for name in _FIELDS if include_headers or name != "headers"])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns that a schema asks for, in its order. UsageError for any that a record does not have."""
    for field in schema.fields:
        known = _FIELDS.get(field.name)
        if known is None:
            raise _unknown(field.name)
        if field.dataType != known or not field.nullable:
            found = field.dataType.simpleString() + ("" if field.nullable else " not null")
            raise UsageError(f"column {field.name} is {known.simpleString()}, not {found}: cast it after reading")
    names = tuple(field.name for field in schema.fields)
    if not names or len(set(names)) < len(names):
        raise UsageError(
            f"the schema must name one column or more, and none twice; it names {', '.join(names) or 'none'}"
        )
    return names


def _unknown(name: str) -> UsageError:
    from equipoise.settings import nearest
    from equipoise.spark.options import DOCUMENT

    return UsageError(f"a record has no column {name!r}{nearest(name, _FIELDS, DOCUMENT)}")


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """As Spark wants its record batches, to the letter."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(_struct(columns), timezone="UTC")


def _struct(columns: Sequence[str]) -> StructType:
    return StructType([StructField(name, _FIELDS[name]) for name in columns])
