"""The line of the user's code that an error text names, among the frames of Spark and of packages."""

from __future__ import annotations

import sys

import pytest

from pipelines.user_errors import as_usage_error, place_in, python_error_in


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of a project, in its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "cents_of_adteam.py").write_text("def cents(text):\n    return int(text)\n")
    yield tmp_path / "cents_of_adteam.py"
    sys.modules.pop("cents_of_adteam", None)


def traceback(file):
    """The text of an error in a Python worker."""
    return f"""\
(STREAM_FAILED) [PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/pyspark/worker.py", line 100, in main
    process()
  File "{file}", line 2, in cents
    return int(text)
           ^^^^^^^^^
  File "/opt/site-packages/other/numbers.py", line 7, in as_number
ValueError: invalid literal for int() with base 10: 'zz'
 SQLSTATE: 38000
=== Streaming Query ===
"""


def test_an_error_in_a_worker_has_its_line_and_the_users_innermost_frame(module):
    text = traceback(module)
    assert python_error_in(text) == "ValueError: invalid literal for int() with base 10: 'zz'"
    assert place_in(text) == "cents_of_adteam.py:2 in cents: return int(text)"


def test_an_error_that_spark_passes_on_from_a_worker_is_the_workers(module):
    error = as_usage_error(RuntimeError(traceback(module)), "it failed")
    said = "in a Python worker: ValueError: invalid literal for int() with base 10: 'zz'"
    assert error.message == f"it failed: {said}"


def test_a_module_that_was_sent_is_named_as_it_is_called_here(module):
    import cents_of_adteam

    assert cents_of_adteam.cents("1") == 1
    text = traceback("./project-0123456789ab.zip/cents_of_adteam.py")
    assert place_in(text) == "cents_of_adteam.py:2 in cents: return int(text)"


def test_a_text_without_a_frame_of_the_user_has_no_place():
    assert place_in(traceback("/opt/site-packages/adteam/cents.py")) == ""
    assert place_in("[STREAM_FAILED] a disk is full") == ""


def test_a_long_message_is_cut_and_an_exception_without_one_has_its_kind(module):
    import cents_of_adteam

    with pytest.raises(ValueError) as raised:
        cents_of_adteam.cents("x")
    raised.value.args = ("x" * 5000,)
    error = as_usage_error(raised.value, "it failed")
    assert len(error.message) < 400
    assert error.message.endswith("xxx…")
    assert error.detail == "cents_of_adteam.py:2 in cents: return int(text)"
    assert as_usage_error(KeyError(), "it failed").message == "it failed: KeyError"
