"""A broker of a test's own, and the proxy through which its second listener is reached."""

from __future__ import annotations

from tests.e2e.own_broker import OwnBroker
from tests.e2e.proxy import Proxy
from tests.e2e.tasks import made


class Site:
    """A broker that can be reached directly, and through a proxy."""

    def __init__(self, broker: OwnBroker, between: Proxy) -> None:
        self.broker = broker
        self.proxy = between
        between.target = broker.second

    def told(self) -> tuple[dict, dict]:
        """What the tasks of a query are told: directly, and through the proxy."""
        directly = made(self.broker.bootstrap)
        return directly, {**directly, "bootstrap": self.proxy.address}
