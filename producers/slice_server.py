"""Publishes slices of traces with one Kafka client, one after the other: ``python -m producers.slice_server …``.

Answers a JSON line to each command on its standard input; the slice is acknowledged by the broker then::

    publish {"trace": "/.../trace.jsonl", "slice": 2, "topics": {"lefts": "t1", "rights": "t2"}}
      ->  {"published": 2, "records": 14}
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from producers.kafka_out import KafkaOut
from producers.replay import say
from tidemark.errors import TidemarkError, UsageError
from tidemark.formats.client_settings import read_client_settings
from tidemark.formats.trace import TraceReader


def main() -> int:
    """Parse the command line, serve, return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m producers.slice_server", description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of a broker")
    parser.add_argument("--kafka-conf", type=Path, help="settings of Kafka's client (a login), a file")
    args = parser.parse_args()
    try:
        login = read_client_settings(args.kafka_conf) if args.kafka_conf else {}
        with KafkaOut(args.bootstrap, {}, login) as out:
            for line in sys.stdin:
                say(publish(line, out), sys.stdout)
        return 0
    except TidemarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def publish(line: str, out: KafkaOut) -> dict[str, int]:
    """Do what one line asks for."""
    word, _, rest = line.strip().partition(" ")
    if word != "publish":
        raise UsageError(f"cannot do {word!r}", hint="publish")
    asked = json.loads(rest)
    out.topics = dict(asked["topics"])
    records = 0
    with TraceReader(Path(asked["trace"])) as reader:
        for record in reader:
            if record.slice == asked["slice"]:
                out.send(record)
                records += 1
        slices = reader.header.slices
    out.wait_for_acks()
    if asked["slice"] == slices - 1:
        out.wait_until_compacted()
    return {"published": asked["slice"], "records": records}


if __name__ == "__main__":
    sys.exit(main())
