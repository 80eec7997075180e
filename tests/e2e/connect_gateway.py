"""A gateway before a Spark Connect server, as platforms have it: TLS, and a token that each request must have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

THREADS = 16
"""Requests at a time; a query that is watched holds one."""
END_S = 10.0


class Gateway(grpc.GenericRpcHandler):
    """Passes every request on to a server if it has ``token``, which may be changed while it runs.

    ``users`` are those that the requests were sent with.
    """

    def __init__(self, server: str, token: str) -> None:
        self.token = token
        self._channel = grpc.insecure_channel(server, options=[("grpc.max_receive_message_length", -1)])

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """On the wire any request is a stream of one or more messages, and so is any answer."""
        pass_on = self._channel.stream_stream(details.method)

        def handle(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            if dict(context.invocation_metadata()).get("authorization") != f"Bearer {self.token}":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no valid token")
            call = pass_on(messages)
            context.add_callback(call.cancel)
            try:
                yield from call
            except grpc.RpcError as error:
                _answer(error, context)

        return grpc.stream_stream_rpc_method_handler(handle)

    def close(self) -> None:
        """Close its connection to the server."""
        self._channel.close()


def _answer(error: Any, context: grpc.ServicerContext) -> None:
    context.set_trailing_metadata(error.trailing_metadata() or ())
    context.abort(error.code(), error.details())


def serve(gateway: Gateway, key: bytes, certificates: bytes) -> tuple[int, Callable[[], object]]:
    """Serve it on a free port of this machine, over TLS; returns the port, and what ends it."""
    server = grpc.server(ThreadPoolExecutor(THREADS), options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers([gateway])
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificates)]))
    server.start()

    def end() -> None:
        server.stop(None).wait(END_S)
        gateway.close()

    return port, end
