"""The end of a task's input: believed only if Spark says so, and signals that end a task in order."""

from __future__ import annotations

import os
import signal
import socket

import pyarrow as pa
import pytest

from tidemark.errors import SinkFailed, SinkRefused
from tidemark.sink.task.stream_guard import END_OF_STREAM, ended_in_order, input_of_task, whole

BATCH = pa.RecordBatch.from_pydict({"value": ["a", "b"]})


@pytest.fixture
def ends():
    """Spark's end of a connection, and the worker's."""
    ours, theirs = socket.socketpair()
    with ours, theirs, os.fdopen(os.dup(theirs.fileno()), "rb", 65536) as infile:
        yield ours, infile


def send(ours, *, marked, then=b""):
    """Two batches as an Arrow stream, with its end marker or without, and what follows."""
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, BATCH.schema)
    writer.write_batch(BATCH)
    writer.write_batch(BATCH)
    writer.close()
    stream = sink.getvalue().to_pybytes()
    ours.sendall((stream if marked else stream[:-8]) + then)


def test_rows_are_whole_if_sparks_word_follows_and_the_word_is_left_for_spark(ends):
    ours, infile = ends
    send(ours, marked=True, then=END_OF_STREAM)
    assert list(whole(pa.ipc.open_stream(infile), infile)) == [BATCH, BATCH]
    assert infile.read(4) == END_OF_STREAM


def test_arrow_takes_a_closed_connection_for_an_end_and_we_do_not(ends):
    ours, infile = ends
    send(ours, marked=False)
    ours.shutdown(socket.SHUT_WR)
    batches = list(pa.ipc.open_stream(infile))
    assert batches == [BATCH, BATCH]
    with pytest.raises(SinkFailed, match="before all its rows were there"):
        list(whole(batches, infile))


def test_an_end_marker_alone_is_not_enough(ends):
    ours, infile = ends
    send(ours, marked=True)
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(SinkFailed):
        list(whole(pa.ipc.open_stream(infile), infile))


def test_rows_that_came_before_the_connection_was_closed_are_not_handed_out(ends):
    ours, infile = ends
    send(ours, marked=True, then=END_OF_STREAM)
    ours.close()
    with pytest.raises(SinkFailed):
        next(whole(pa.ipc.open_stream(infile), infile))


def test_the_input_is_found_in_the_frame_of_the_worker(ends):
    _, infile = ends

    def main(infile):
        return infile, input_of_task()

    given, found = main(infile)
    assert found is given
    with pytest.raises(SinkRefused, match="whether its input is whole"):
        input_of_task()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_ends_a_task_in_order_and_a_second_one_does_not_disturb_it(number):
    before = signal.getsignal(number)
    closed = []

    def task():
        with ended_in_order():
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
