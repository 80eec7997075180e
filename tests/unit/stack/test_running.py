"""What a running stack says of its components."""

from __future__ import annotations

from tidemark.processes import ProcessId
from tidemark.stack.api import ComponentKind
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.managed import RunningStack


def test_components_are_listed_by_kind_and_not_by_name(state, stack_record, component):
    state.make()
    for name, kind in {
        "broker": "broker",
        "master": "master",
        "worker-1": "worker",
        "driver": "driver",
    }.items():
        state.write_component(component(name, kind))
    for name in ("broker-events", "master-data", "worker-pay"):
        state.write_component(component(name, "driver", owner=ProcessId.own()))
    stack = RunningStack(state, stack_record, ProcessRuntime(state))

    assert {kind.value: stack.components(kind) for kind in ComponentKind} == {
        "broker": ["broker"],
        "master": ["master"],
        "worker": ["worker-1"],
        "driver": ["driver", "broker-events", "master-data", "worker-pay"],
    }
    assert len(stack.components()) == 7
