"""The clients: their names, and a driver for each."""

from __future__ import annotations

from tests.interop.drivers.aiokafka import AioKafka
from tests.interop.drivers.base import Driver, MissingClient
from tests.interop.drivers.confluent import Confluent
from tests.interop.drivers.kafka_python import KafkaPython
from tests.interop.drivers.kafkajs import KafkaJs
from tests.interop.drivers.kcat import Kcat

DRIVERS: dict[str, type[Driver]] = {driver.name: driver for driver in (Confluent, KafkaPython, AioKafka, Kcat, KafkaJs)}

__all__ = ["DRIVERS", "AioKafka", "Confluent", "Driver", "KafkaJs", "KafkaPython", "Kcat", "MissingClient"]
