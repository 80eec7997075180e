"""The end of a task's input is accepted only with Spark's end marker, and signals end a task gracefully."""

from __future__ import annotations

import os
import signal
import socket

import pyarrow as pa
import pytest

from tidemark.errors import SinkFailed, SinkRefused
from tidemark.sink.task.stream_guard import END_OF_STREAM, graceful_shutdown, guarded, task_input

BATCH = pa.RecordBatch.from_pydict({"value": ["a", "b"]})


@pytest.fixture
def ends():
    """Both ends of a connection: Spark's and the worker's."""
    ours, theirs = socket.socketpair()
    with ours, theirs, os.fdopen(os.dup(theirs.fileno()), "rb", 65536) as infile:
        yield ours, infile


def send(ours, *, marked, then=b""):
    """Send two batches as an Arrow stream, with or without Arrow's end marker, followed by ``then``."""
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, BATCH.schema)
    writer.write_batch(BATCH)
    writer.write_batch(BATCH)
    writer.close()
    stream = sink.getvalue().to_pybytes()
    ours.sendall((stream if marked else stream[:-8]) + then)


def test_a_stream_with_sparks_end_marker_is_complete_and_the_marker_stays_in_the_connection(ends):
    ours, infile = ends
    send(ours, marked=True, then=END_OF_STREAM)
    assert list(guarded(pa.ipc.open_stream(infile), infile)) == [BATCH, BATCH]
    assert infile.read(4) == END_OF_STREAM


def test_a_closed_connection_is_an_error_although_arrow_takes_it_for_the_end(ends):
    ours, infile = ends
    send(ours, marked=False)
    ours.shutdown(socket.SHUT_WR)
    batches = list(pa.ipc.open_stream(infile))
    assert batches == [BATCH, BATCH]
    with pytest.raises(SinkFailed, match="before all of its rows had arrived"):
        list(guarded(batches, infile))


def test_arrows_end_marker_without_sparks_is_an_error(ends):
    ours, infile = ends
    send(ours, marked=True)
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(SinkFailed):
        list(guarded(pa.ipc.open_stream(infile), infile))


def test_rows_received_before_the_connection_was_closed_are_not_returned(ends):
    ours, infile = ends
    send(ours, marked=True, then=END_OF_STREAM)
    ours.close()
    with pytest.raises(SinkFailed):
        next(guarded(pa.ipc.open_stream(infile), infile))


def test_the_input_is_found_in_the_frame_of_pysparks_worker(ends):
    _, infile = ends

    def main(infile):
        return infile, task_input()

    given, found = main(infile)
    assert found is given
    with pytest.raises(SinkRefused, match="verify that its input is complete"):
        task_input()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_ends_a_task_gracefully_and_a_second_one_is_ignored(number):
    before = signal.getsignal(number)
    closed = []

    def task():
        with graceful_shutdown():
            try:
                signal.raise_signal(number)
            finally:
                signal.raise_signal(number)
                closed.append(True)

    with pytest.raises(SystemExit) as ended:
        task()
    assert ended.value.code == 128 + number
    assert closed == [True]
    assert signal.getsignal(number) == before
