"""What a program answers about its query: the calls to the driver that it takes, and a failure that is never missed."""

from __future__ import annotations

import pytest

from pipelines.query_server import QueryServer
from tidemark.errors import UsageError

WAITING = {"message": "Waiting for next trigger", "isDataAvailable": False, "isTriggerActive": False}
ACTIVE = {"message": "Processing new data", "isDataAvailable": True, "isTriggerActive": True}
ENDED = {
    "message": "Terminated with exception: boom",
    "isDataAvailable": False,
    "isTriggerActive": False,
}


class MadeUpQuery:
    """A streaming query with a status, and perhaps an error; it counts the questions for the error."""

    def __init__(self, status, error=None):
        self.status = status
        self.asked = 0
        self._error = error

    def exception(self):
        self.asked += 1
        return self._error


def server(query):
    return QueryServer(session=None, query=query, checkpoint="", contract=None)


@pytest.mark.parametrize("status", [WAITING, ACTIVE])
def test_the_status_of_a_running_query_takes_one_call(status):
    query = MadeUpQuery(status)

    assert server(query).answer("status\n") == {"event": "status", **status}
    assert query.asked == 0


def test_the_status_of_a_query_that_has_failed_is_its_failure():
    query = MadeUpQuery(ENDED, RuntimeError("boom"))

    answer = server(query).answer("status")

    assert answer["event"] == "failed"
    assert "boom" in answer["message"]


def test_a_query_that_was_stopped_without_an_error_has_a_status():
    stopped = {**ENDED, "message": "Stopped"}

    assert server(MadeUpQuery(stopped)).answer("status") == {"event": "status", **stopped}


def test_an_unknown_command_is_refused_with_those_that_there_are():
    with pytest.raises(UsageError, match="cannot do 'dance'") as refused:
        server(MadeUpQuery(WAITING)).answer("dance now")

    assert "status" in refused.value.hint
