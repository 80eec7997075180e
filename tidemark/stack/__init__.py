"""The stack that tests run on: Kafka brokers, a Spark master, workers and Spark Connect drivers.

Start here: ``lease`` (use a stack for a block), ``up`` and ``down`` (start one by hand, end it), ``current``. Import
from this package, not from the modules inside. Its layers, checked by import-linter: ``lifecycle``, ``running_stack``
and ``external_stack`` on top; the backends (``local``, ``compose``); ``install`` and ``components``; ``registry`` (what
is on disk) and ``api`` (the protocol) at the bottom. The stack knows nothing of runs, faults or the oracle.
"""

from tidemark.stack.api import (
    DRIVER,
    POWERS,
    PROXY_TOXICS,
    REGISTRY,
    REQUESTS,
    RESPONSES,
    SINK_STEPS_FOLDER,
    ComponentKind,
    ComponentState,
    ComponentStatus,
    Driver,
    Executor,
    LinkTraffic,
    Stack,
    StreamTraffic,
    Toxic,
)
from tidemark.stack.backend_choice import spec_to_lease
from tidemark.stack.lifecycle import current, down, lease, up
from tidemark.stack.spec import StackSpec

__all__ = [
    "DRIVER",
    "POWERS",
    "PROXY_TOXICS",
    "REGISTRY",
    "REQUESTS",
    "RESPONSES",
    "SINK_STEPS_FOLDER",
    "ComponentKind",
    "ComponentState",
    "ComponentStatus",
    "Driver",
    "Executor",
    "LinkTraffic",
    "Stack",
    "StackSpec",
    "StreamTraffic",
    "Toxic",
    "current",
    "down",
    "lease",
    "spec_to_lease",
    "up",
]
