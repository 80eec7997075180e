"""The sink's code as drivers and executors get it: pickled by value, for an interpreter that has no tidemark."""

from __future__ import annotations

import subprocess
import sys

from tidemark.sink.client.exactly_once_writer import pickled_entry_points

ELSEWHERE = """
import pickle, sys, zlib

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tidemark":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Absent())
print(*(function.__name__ for function in pickle.loads(zlib.decompress(sys.stdin.buffer.read()))))
"""


def test_the_payload_needs_no_tidemark_where_it_is_unpickled():
    done = subprocess.run(
        [sys.executable, "-I", "-c", ELSEWHERE],
        input=pickled_entry_points(),
        capture_output=True,
        check=False,
    )

    assert done.stderr.decode() == ""
    assert done.stdout.split() == [b"prepare", b"write", b"end_batch"]
