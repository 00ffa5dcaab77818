"""The columns of a record, and schemas that choose among them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from equipoise.spark.schema import arrow_schema, columns_of, spark_schema
from equipoise.wire.errors import UsageError


def of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_the_columns_are_those_of_the_official_connector() -> None:
    assert spark_schema(include_headers=True) == of(
        key=BinaryType(),
        value=BinaryType(),
        topic=StringType(),
        partition=IntegerType(),
        offset=LongType(),
        timestamp=TimestampType(),
        timestampType=IntegerType(),
        headers=ArrayType(of(key=StringType(), value=BinaryType())),
    )
    assert columns_of(spark_schema(include_headers=False))[-1] == "timestampType"


def test_a_schema_chooses_columns_and_their_order() -> None:
    assert columns_of(of(value=BinaryType(), key=BinaryType())) == ("value", "key")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (of(valeu=BinaryType()), "no column 'valeu'; did you mean 'value'"),
        (of(value=StringType()), "column value is binary, not string: cast it"),
        (of(partition=LongType()), "column partition is int, not bigint"),
        (StructType([StructField("key", BinaryType(), nullable=False)]), "not null"),
        (StructType([]), "one column or more"),
        (StructType(of(key=BinaryType()).fields * 2), "none twice"),
    ],
)
def test_schemas_that_records_do_not_have(schema: StructType, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        columns_of(schema)


def test_arrow_types() -> None:
    found = arrow_schema(("timestamp", "key", "partition"))
    assert found.types == [pa.timestamp("us", tz="UTC"), pa.binary(), pa.int32()]
