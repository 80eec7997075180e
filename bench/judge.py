"""Judging a million events: how long it takes and how much memory, reading the evidence included.

    python -m bench.judge [--events 1000000] [--kind left_outer] [--large] [--engine spark] [--keep DIR]

Makes a run directory (without Kafka and Spark: its output is what the judge's own model predicts), judges it in a
process of its own, so that the memory is the judge's alone, and prints one JSON object. The aims are 10 s and 1 GB.
``--large`` makes a left outer join set by set, as Parquet (``bench._large_evidence``): ten million events in 33 s.
``--engine spark`` judges that on Spark; its memory is that of all processes together.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench._evidence import AIM_BYTES, AIM_S, PARTITIONS, START_US, contract, make_run, measure, record
from bench._large_evidence import make_large_run
from tidemark.formats.contract import Bound, JoinKind
from tidemark.formats.events import write_time
from tidemark.formats.seal import seal
from tidemark.formats.trace import Record

BATCHES = 40
CLICK_SHARE = 0.3
LATE_SHARE = 0.03
SPAN_S = 3600
AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
)


def events(count: int, rng: random.Random) -> Iterator[Record]:
    """Impressions, three in ten of them clicked a few seconds later; a few rows come too late."""
    waiting: list[tuple[int, str, str, int]] = []
    impressions = round(count * (1 - CLICK_SHARE))
    clicks = 0
    for number in range(impressions):
        now_us = START_US + SPAN_S * 1_000_000 * number // impressions
        user, ad = f"u-{rng.randrange(50_000):06d}", f"a-{rng.randrange(500):04d}"
        late_us = rng.randrange(300_000_000) if rng.random() < LATE_SHARE else 0
        value = (
            f'{{"impression_id":"i-{number:08d}","user_id":"{user}","ad_id":"{ad}","campaign_id":"k-{number % 90}",'
            f'"page":"/news/{number % 977}","user_agent":"{AGENT}","impression_time":"{write_time(now_us - late_us)}"}}'
        )
        yield record("impressions", number % PARTITIONS, value, now_us)
        while clicks * impressions < (number + 1) * (count - impressions):
            waiting.append((now_us + rng.randrange(24_000_000), user, ad, clicks))
            clicks += 1
        if len(waiting) > 2000 or number == impressions - 1:
            waiting.sort()
            ready = len(waiting) if number == impressions - 1 else len(waiting) // 2
            for time_us, user_id, ad_id, click in waiting[:ready]:
                text = (
                    f'{{"click_id":"c-{click:08d}","user_id":"{user_id}","ad_id":"{ad_id}","page_x":{click % 1000},'
                    f'"click_time":"{write_time(time_us)}"}}'
                )
                yield record("clicks", click % PARTITIONS, text, now_us)
            del waiting[:ready]


def batches(count: int, rng: random.Random) -> Iterator[list[Record]]:
    """The events, in batches of one size."""
    rest = events(count, rng)
    while some := list(islice(rest, count // BATCHES)):
        yield some


def main() -> None:
    """Make, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.judge", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--kind", type=JoinKind, default=JoinKind.LEFT_OUTER, choices=list(JoinKind))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--large", action="store_true", help="Parquet, a left outer join without late rows")
    parser.add_argument(
        "--unsealed", action="store_true", help="without a seal, so that all of it is read in Python"
    )
    parser.add_argument("--engine", default="duckdb", choices=("duckdb", "spark"))
    parser.add_argument("--spark-master", default="local[2]", metavar="URL")
    parser.add_argument("--spark-conf", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--keep", type=Path, help="leave the run directory here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as scratch:
        path = args.keep or Path(scratch) / "run"
        path.mkdir(parents=True)
        if args.large:
            run = make_large_run(path, args.events, BATCHES)
        else:
            records = batches(args.events, random.Random(args.seed))
            run = make_run(path, contract(args.kind, Bound(-20_000, 0)), records)
        if not args.unsealed:
            seal(run.path)
        found = measure(run.path, args.engine, args.spark_master, args.spark_conf)
        measured = {
            "bench": "judge",
            "events": args.events,
            "kind": args.kind,
            "engine": args.engine,
            **found,
        }
    measured |= {"aim_s": AIM_S, "aim_bytes": AIM_BYTES}
    sys.stdout.write(json.dumps(measured) + "\n")


if __name__ == "__main__":
    main()
