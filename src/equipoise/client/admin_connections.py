"""The connections of an administrator: to the server it began with, to the controller, to any broker by its address."""

from __future__ import annotations

from contextlib import ExitStack

from equipoise.client.metadata.metadata import Metadata, metadata_request, patience_rounds
from equipoise.client.net.addresses import Address, parse_bootstrap_servers
from equipoise.client.net.blocking import Connection
from equipoise.client.net.errors import KafkaConnectionError, error_from, is_final
from equipoise.client.security.config import SecurityConfig
from equipoise.client.security.parsing import security_from_keywords
from equipoise.closing import Closing
from equipoise.member.partitions import TopicPartition
from equipoise.security.denials import RESOURCE_OF, AclAction
from equipoise.wire.apis.k03_metadata import MetadataResponse
from equipoise.wire.errors import ErrorCode


class AdminConnections(Closing):
    """What every call of `Admin` is made of: a connection, an answer, and a check of its error."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "equipoise",
        timeout: float = 30.0,
        security: SecurityConfig | None = None,
        **settings: object,
    ) -> None:
        """`settings`: those of docs/security.md, with underscores for dots, unless `security` has them."""
        self._security = security or security_from_keywords(bootstrap_servers, **settings)
        self._client_id = client_id
        self._timeout = timeout
        self._open = ExitStack()
        self._by_address: dict[Address, Connection] = {}
        self._bootstrap = self._reach(parse_bootstrap_servers(bootstrap_servers))

    def close(self) -> None:
        """Closes all connections."""
        self._open.close()

    def _check(self, code: int, broker_says: str | None, otherwise: str, *actions: AclAction) -> None:
        """Of a denial brokers say "Authorization failed." at most."""
        if code:
            what = otherwise if code in RESOURCE_OF else broker_says or otherwise
            raise error_from(code, what, *actions, principal=self._security.principal)

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout * 1000)

    def _metadata(self, names: list[str] | None) -> MetadataResponse:
        return self._bootstrap.send(metadata_request(names), MetadataResponse)

    def _leader(self, partition: TopicPartition) -> Connection:
        """The broker that leads the partition. KafkaError: there is none."""
        metadata = metadata_of(self._metadata([partition.topic]))
        leader = metadata.leader(partition)
        if leader is None:
            code = metadata.errors.get(partition.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._check(code, None, f"{self._bootstrap.address} knows no broker that leads {partition}")
        assert leader is not None
        return self._connection(metadata.nodes[leader.node_id].address)

    def _controller(self) -> Connection:
        """A cluster that names no controller forwards such requests by itself, or answers NOT_CONTROLLER."""
        controller = metadata_of(self._metadata([])).controller
        return self._bootstrap if controller is None else self._connection(controller.address)

    def _reach(self, addresses: list[Address]) -> Connection:
        """Connects to the first server that answers. A server may hang, so each is tried for a short time before any
        is waited for."""
        for patience in patience_rounds(self._timeout) if len(addresses) > 1 else [self._timeout]:
            failures = []
            for address in addresses:
                try:
                    return self._connection(address, patience)
                except KafkaConnectionError as error:
                    if is_final(error):
                        raise
                    failures.append(str(error))
        raise KafkaConnectionError("; ".join(failures))

    def _connection(self, address: Address, setup_timeout: float | None = None) -> Connection:
        known = self._by_address.get(address)
        if known is None:
            known = Connection(
                *address,
                client_id=self._client_id,
                timeout=setup_timeout or self._timeout,
                security=self._security,
            )
            known.timeout = self._timeout
            self._by_address[address] = self._open.enter_context(known)
        return known


def metadata_of(response: MetadataResponse) -> Metadata:
    """An answer as a `Metadata` of its own."""
    metadata = Metadata()
    metadata.update(response)
    return metadata
