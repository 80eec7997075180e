"""The stack: broker, Spark master, workers, drivers. ``lease`` it to use it, ``up`` keeps one, ``down`` ends it."""

from tidemark.stack.api import (
    DRIVER,
    POWERS,
    ComponentKind,
    ComponentState,
    ComponentStatus,
    Driver,
    Executor,
    Stack,
)
from tidemark.stack.backend_choice import spec_to_lease
from tidemark.stack.lifecycle import current, down, lease, up
from tidemark.stack.spec import StackSpec

__all__ = [
    "DRIVER",
    "POWERS",
    "ComponentKind",
    "ComponentState",
    "ComponentStatus",
    "Driver",
    "Executor",
    "Stack",
    "StackSpec",
    "current",
    "down",
    "lease",
    "spec_to_lease",
    "up",
]
