"""The same groups given to Kafka's own assignors and to ours."""

from __future__ import annotations

import pytest

from equipoise.assignors import assignor_named
from tests.assignors.cases import check_valid, partitions_of, random_cases
from tests.assignors.java import java_assign

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_identical(name: str) -> None:
    cases = random_cases(500, seed=1)
    for (cluster, members), expected in zip(cases, java_assign(name, cases), strict=True):
        ours = partitions_of(assignor_named(name).assign(cluster, members))
        assert ours == expected, (cluster, members)
        check_valid(cluster, members, ours)
