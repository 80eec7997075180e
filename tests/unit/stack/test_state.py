from __future__ import annotations

import pytest

from tidemark.errors import DeadlineExceeded, TestbedError
from tidemark.process import ProcessId, end
from tidemark.stack.state import Lease, StateFolder


def test_only_one_holds_the_lock(state):
    with state.lock(), pytest.raises(DeadlineExceeded, match="held by process"), state.lock(0):
        pass
    with state.lock(0):
        pass


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(TestbedError, match="cannot be written"),
        StateFolder(tmp_path / "file" / "home").lock(),
    ):
        pass


def test_records_come_back_as_they_were_written(state, stack_record, part):
    state.make()
    state.write(stack_record)
    state.write_part(part(process=ProcessId(12, 179522578, "a-boot")))
    assert state.read() == stack_record
    assert state.part("broker").process == ProcessId(12, 179522578, "a-boot")


def test_there_is_no_stack_before_one_is_made(state):
    assert state.token() is None
    assert state.read() is None
    assert state.parts() == []


def test_a_record_of_another_version_is_as_good_as_none(state):
    state.make()
    (state.path / "stack.json").write_text('{"format": 99}')
    assert state.read() is None


def test_parts_come_in_the_order_of_the_stack(state, part):
    state.make()
    own = part("aaa", "driver", owner=ProcessId.own())
    for record in (
        own,
        part("driver", "driver"),
        part("worker-1", "worker"),
        part("master", "master"),
        part(),
    ):
        state.write_part(record)
    assert [record.name for record in state.parts()] == ["broker", "master", "worker-1", "driver", "aaa"]


def test_a_lease_is_void_when_its_holder_is_dead(state, sleeper):
    state.make()
    holder = sleeper()
    state.add("leases", Lease(holder), "theirs")
    state.add("leases", Lease(ProcessId.own()), "ours")
    assert set(state.lease_owners()) == {holder, ProcessId.own()}
    end([holder], ask_s=0)
    assert state.lease_owners() == [ProcessId.own()]
    assert [path.stem for path, _ in state.records("leases", Lease)] == ["ours"]
