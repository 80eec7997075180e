from __future__ import annotations

import hashlib
import json
import os

import msgspec
import pytest

from tidemark.errors import DeadlineExceeded, TestbedError, UnknownStack
from tidemark.processes import ProcessId, end
from tidemark.stack.compose import image
from tidemark.stack.install import jars
from tidemark.stack.registry import (
    LAYOUT,
    LOCK_S,
    ComponentRecord,
    Lease,
    Session,
    StackRecord,
    StateFolder,
    Stopped,
)


def test_only_one_process_holds_the_lock(state):
    with state.lock(), pytest.raises(DeadlineExceeded, match="held by process"), state.lock(0):
        pass
    with state.lock(0):
        pass


def test_a_process_that_waits_for_the_lock_says_which_one_has_it(state):
    said: list[str] = []
    with state.lock(say=said.append), pytest.raises(DeadlineExceeded), state.lock(0, say=said.append):
        pass
    assert said == [f"waiting for process {os.getpid()}, which is starting or ending the stack"]


def test_the_lock_is_waited_for_as_long_as_a_start_that_fetches_everything_may_take():
    assert LOCK_S > 3 * jars._FETCH_TIMEOUT_S + 3 * image._STEP_S


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(TestbedError, match="cannot be written"),
        StateFolder(tmp_path / "file" / "home").lock(),
    ):
        pass


def test_records_are_read_as_they_were_written(state, stack_record, component):
    state.make()
    state.write(stack_record)
    state.write_component(component(process=ProcessId(12, 179522578, "a-boot")))
    assert state.read() == stack_record
    assert state.component("broker").process == ProcessId(12, 179522578, "a-boot")


def test_there_is_no_stack_before_one_is_created(state):
    assert state.token() is None
    assert state.read() is None
    assert state.components() == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('{"layout": 99, "tidemark": "7.0", "of": "later"}', ["(7.0)", "layout 99"]),
        ('{"digest": "d", "backend": "local", "kept": true}', ["(0.1.0 or earlier)", "layout 1"]),
        (f'{{"layout": {LAYOUT}, "digest": 5}}', ["cannot be read", "digest"]),
        ("", ["cannot be read"]),
    ],
)
def test_a_stack_of_another_version_is_named(state, sleeper, written, expected):
    sleeper(state.make())
    (state.path / "stack.json").write_text(written)
    with pytest.raises(UnknownStack) as error:
        state.read()
    text = str(error.value)
    assert all(word in text for word in [*expected, str(state.path), "1 of its processes", "tidemark down"])
    assert state.is_kept(), "a stack whose record cannot be read must not be ended automatically"


def shape(info: msgspec.inspect.Type) -> object:
    """The JSON structure of a type, independent of its name."""
    match info:
        case msgspec.inspect.StructType() | msgspec.inspect.DataclassType():
            return {field.encode_name: shape(field.type) for field in info.fields}
        case msgspec.inspect.EnumType():
            return [member.value for member in info.cls]
        case msgspec.inspect.UnionType():
            return sorted((shape(each) for each in info.types), key=str)
        case msgspec.inspect.ListType():
            return [shape(info.item_type)]
        case msgspec.inspect.DictType():
            return {"*": shape(info.value_type)}
    return type(info).__name__


def test_a_change_of_the_records_requires_a_new_layout():
    kinds = (StackRecord, ComponentRecord, Lease, Stopped, Session)
    shapes = json.dumps([shape(msgspec.inspect.type_info(kind)) for kind in kinds], sort_keys=True)
    digest = hashlib.sha256(shapes.encode()).hexdigest()[:16]
    assert (LAYOUT, digest) == (9, "ac875dee6020737c"), (
        "raise LAYOUT in the module of StackRecord, and note both here"
    )


def test_components_are_listed_in_start_order(state, component):
    state.make()
    own = component("aaa", "driver", owner=ProcessId.own())
    for record in (
        own,
        component("driver", "driver"),
        component("worker-1", "worker"),
        component("master", "master"),
        component(),
    ):
        state.write_component(record)
    assert [record.name for record in state.components()] == ["broker", "master", "worker-1", "driver", "aaa"]


def test_a_lease_is_void_after_its_holder_died(state, sleeper):
    state.make()
    holder = sleeper()
    state.add("leases", Lease(holder), "theirs")
    state.add("leases", Lease(ProcessId.own()), "ours")
    assert set(state.lease_owners()) == {holder, ProcessId.own()}
    end([holder], ask_s=0)
    assert state.lease_owners() == [ProcessId.own()]
    assert [path.stem for path, _ in state.records("leases", Lease)] == ["ours"]
