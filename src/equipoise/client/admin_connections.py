"""The connections of an administrator: to the server it began with, to the controller, to any broker by its address."""

from __future__ import annotations

from equipoise.client.arguments import as_seconds
from equipoise.client.metadata.metadata import Metadata, metadata_request, patience_rounds
from equipoise.client.net.addresses import Address, parse_bootstrap_servers
from equipoise.client.net.blocking import Connection
from equipoise.client.net.errors import KafkaConnectionError, error_from, is_final
from equipoise.client.security.config import SecurityConfig
from equipoise.client.security.parsing import security_from_keywords
from equipoise.closing import Closing
from equipoise.member.partitions import TopicPartition
from equipoise.security.denials import RESOURCE_OF, AclAction
from equipoise.settings import INT_MAX
from equipoise.wire.apis.k03_metadata import MetadataResponse
from equipoise.wire.errors import ErrorCode, UsageError


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
        self._timeout = min(as_seconds("timeout", timeout), INT_MAX / 1000)  # brokers hear of it in milliseconds
        if not self._timeout:
            raise UsageError(f"timeout is {timeout}: nothing is answered within no time")
        self._servers = parse_bootstrap_servers(bootstrap_servers)
        self._by_address: dict[Address, Connection] = {}
        self._is_closed = False
        self._first = self._reach(self._servers)

    def close(self) -> None:
        """Closes all connections."""
        self._is_closed = True
        for connection in self._by_address.values():
            connection.close()

    def _check(self, code: int, broker_says: str | None, otherwise: str, *actions: AclAction) -> None:
        """Of a denial brokers say "Authorization failed." at most."""
        if code:
            what = otherwise if code in RESOURCE_OF else broker_says or otherwise
            raise error_from(code, what, *actions, principal=self._security.principal)

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout * 1000)

    @property
    def _bootstrap(self) -> Connection:
        """To the server it began with; when that is gone, to the first that answers."""
        if self._is_closed or not self._first.is_quiet:
            self._first = self._reach(self._servers)
        return self._first

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
        """The one that is open, or a new one: brokers end connections when they restart, and those that are idle."""
        if self._is_closed:
            raise UsageError("this Admin is closed: make a new one")
        known = self._by_address.get(address)
        if known is not None and not known.is_quiet:
            known.close()
            known = None
        if known is None:
            known = Connection(
                *address,
                client_id=self._client_id,
                timeout=setup_timeout or self._timeout,
                security=self._security,
            )
            known.timeout = self._timeout
            self._by_address[address] = known
        return known


def metadata_of(response: MetadataResponse) -> Metadata:
    """An answer as a `Metadata` of its own."""
    metadata = Metadata()
    metadata.update(response)
    return metadata
