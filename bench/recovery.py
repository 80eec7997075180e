"""How long a query takes to commit a batch after a fault, and of a driver where the seconds go.

    python -m bench.recovery [--each 5] [--impressions 4000] [--only driver]

One run for each sort of fault, on a stack of its own in a folder of its own, with so many of them; every run has to be
right. A recovery is from the injection to the commit of the batch that was hit. A broker that is killed is out for a
second, which counts; a network is cut for a second, and what counts is from when it is healed. Of a driver: ``process``
is from the kill until the next one has its application, ``executors`` from there until one has registered, ``session``
until the program of the query has its session, ``plan`` until the query is built, ``check`` until the sink has seen
from an executor that it can write, for which a Python worker is started, ``start`` until the first task of the batch
runs again, ``batch`` until it is committed. The aims are 5 s for an executor, 12 s for a driver, 10 s with a standby,
3 s for a broker, 2 s for a network.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench._summary import print_result, say, summary
from tidemark import paths
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import Fault
from tidemark.runner import RunOptions, describe, new_run_directory, run
from tidemark.stack import Stack, StackSpec, down, up
from tidemark.stack.local import packet_links

STANDBY = "driver with a standby"
FAULTS = {
    "executor": ("executor@planned", 5.0),
    "driver": ("driver@written", 12.0),
    STANDBY: ("driver@written", 10.0),
    "broker": ("broker@planned~1", 3.0),
    "network to Kafka": ("broker:cut@planned~1", 2.0),
    "network of an executor": ("executor:cut@planned~1", 2.0),
}
"""Of each sort a fault, and the aim in seconds."""
STEPS = ("process", "executors", "session", "plan", "check", "start", "batch")
_CONNECT = "org.apache.spark.sql.connect.service.SparkListenerConnect"
"""How Spark's events of a Connect server begin."""
Event = dict[str, Any]


def recovered(stack: Stack, folder: Path, what: str, each: int, impressions: int) -> RunDirectory:
    """A run with so many faults of a sort; it has to be right, and none may be missing."""
    options = RunOptions(
        "left_outer", impressions=impressions, faults=f"{FAULTS[what][0]}*{each}",
        generator=("--slices", str(4 * each)), standby=what == STANDBY,
    )  # fmt: skip
    contract = describe(options.pipeline)
    name = what.replace(" ", "-")
    directory = new_run_directory(replace(options, run_dir=folder / name), contract)
    verdict = run(options, contract, directory, stack=stack).verdict
    assert verdict.verdict == "VALID", verdict
    return directory


def recovery_s(fault: Fault) -> float:
    """Of the network from when it is healed."""
    seconds = fault.proof.get("committed_after_heal_s", fault.recovery_s)
    assert seconds is not None
    return float(seconds)


def steps_s(fault: Fault, logs: Sequence[Path]) -> dict[str, float]:
    """Where the seconds of a driver's recovery go."""
    killed_s = datetime.fromisoformat(fault.at_utc).timestamp()
    committed_s = killed_s + (fault.recovery_s or 0.0)
    moments = [killed_s, *_moments(_events_after(logs, killed_s), fault.batch), committed_s]
    return {
        step: round(later - earlier, 2)
        for step, earlier, later in zip(STEPS, moments, moments[1:], strict=False)
    }


def _events_after(logs: Sequence[Path], killed_s: float) -> list[Event]:
    """The events of the first application that began after a moment."""
    for log in logs:
        events = list(_events(log))
        began = next(event for event in events if event["Event"] == "SparkListenerApplicationStart")
        if began["Timestamp"] / 1000 > killed_s:
            return events
    raise AssertionError(f"no application began after {killed_s}: {logs}")


def _events(log: Path) -> Iterator[Event]:
    """Those that are written whole: the last line of a log that is still written may not be."""
    *lines, _unfinished = log.read_text(encoding="utf-8").split("\n")
    yield from map(json.loads, lines)


def _moments(events: Sequence[Event], batch: int | None) -> list[float]:
    """When each step but the last was over, in seconds.

    The first operation of a session is the sink's check, what follows is registered; then the query is started.
    """
    found = {event["Event"]: event for event in reversed(events)}
    began, registered = found["SparkListenerApplicationStart"], found["SparkListenerExecutorAdded"]
    session, check = found[f"{_CONNECT}SessionStarted"], found[f"{_CONNECT}OperationStarted"]
    started = next(
        event
        for event in events
        if event["Event"] == f"{_CONNECT}OperationStarted"
        and event["statementText"].startswith("write_stream_operation_start")
    )
    stages = {
        stage
        for event in events
        if event["Event"] == "SparkListenerJobStart"
        and event.get("Properties", {}).get("streaming.sql.batchId") == str(batch)
        for stage in event["Stage IDs"]
    }
    ran = next(
        event["Task Info"]["Launch Time"]
        for event in events
        if event["Event"] == "SparkListenerTaskStart" and event["Stage ID"] in stages
    )
    times_ms = [began["Timestamp"], registered["Timestamp"]]
    times_ms += [event["eventTime"] for event in (session, check, started)]
    moments = [at_ms / 1000 for at_ms in (*times_ms, ran)]
    assert moments == sorted(moments), f"the steps are not one after the other: {moments}"
    return moments


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.recovery", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--each", type=int, default=5, help="faults of each sort")
    parser.add_argument("--only", action="append", choices=list(FAULTS), help="these sorts; repeatable")
    parser.add_argument("--impressions", type=int, default=4000)
    args = parser.parse_args()
    paths.runs_dir().mkdir(exist_ok=True)
    result: dict[str, Any] = {}
    with TemporaryDirectory(prefix="bench-", dir=paths.runs_dir()) as name:
        home = Path(name)
        try:
            stack = up(StackSpec(), home=home)
            for what, (fault, aim_s) in FAULTS.items():
                if args.only and what not in args.only:
                    continue
                if what == "network of an executor" and not packet_links.is_possible():
                    say(f"{what} is left out: it takes root and iptables")
                    continue
                directory = recovered(stack, home, what, args.each, args.impressions)
                faults = [fault for fault in directory.faults() if fault.injected]
                seconds = [recovery_s(fault) for fault in faults]
                say(f"{what} {seconds}")
                result[what] = {**summary(f"{what}: {fault}", "s", seconds), "aim": aim_s}
                if what == "driver":
                    # The run has a driver of its own; the name of a log begins with the time of its application.
                    logs = sorted((stack.state_dir / "event-logs").glob("*/*"), key=lambda path: path.name)
                    steps = [steps_s(fault, logs) for fault in faults]
                    result |= {
                        step: summary(f"driver: {step}", "s", [one[step] for one in steps]) for step in STEPS
                    }
        finally:
            down(home=home)
    print_result(result)


if __name__ == "__main__":
    main()
