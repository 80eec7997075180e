"""The options of ``python -m producers generate``: the settings of a generated trace, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option(help="The trace to write; a name in .zst is compressed.")]
Seed = Annotated[int, typer.Option(help="The same seed and options give the same bytes.")]
Impressions = Annotated[int, typer.Option(help="Impressions, edge rows excluded.")]
Ctr = Annotated[float, typer.Option(help="Share of impressions with a click.")]
SliceCount = Annotated[
    int, typer.Option(help="Number of slices; 0 means 4, 6 from 1,000 impressions on, 12 from 5,000 on.")
]
Pace = Annotated[str, typer.Option(help="stepped, backlog or timed.")]
Lateness = Annotated[str, typer.Option(help="MODEL[:SHARE][*AMOUNT], joined by +.")]
Partitions = Annotated[int, typer.Option(help="Partitions of each topic.")]
Unreadable = Annotated[
    float, typer.Option(help="Share of records that cannot be read or have no event time.")
]
NullKeys = Annotated[float, typer.Option(help="Share without a join key.")]
Duplicates = Annotated[float, typer.Option(help="Share of records sent twice.")]
ChangedDuplicates = Annotated[
    float,
    typer.Option(help="Share of records sent again with the same id and another payload: key, time, page."),
]
MovedDuplicates = Annotated[float, typer.Option(help="Share of records sent again to another partition.")]
Edges = Annotated[int, typer.Option(help="How often each slice has each edge row.")]
WatermarkDelay = Annotated[int, typer.Option(help="Watermark delay.")]
BoundMs = Annotated[int, typer.Option(help="A click matches up to this long after its impression.")]
Skew = Annotated[
    str,
    typer.Option(help="Join keys: mild, zipf[:EXPONENT], or one[:SHARE], where one key has a tenth of all."),
]
Silent = Annotated[
    str, typer.Option(help="TOPIC:SHARE: on this topic nothing arrives for that share of the time.")
]
EventsPerSecond = Annotated[
    float, typer.Option(help="Impressions and clicks in a second of event time; 0: as the slices are long.")
]
Bursts = Annotated[
    float,
    typer.Option(help="Share of impressions that come in bursts, one in each slice, of 2 % of its time."),
]
TransactionShare = Annotated[
    float, typer.Option(help="Share of records that are sent in transactions of the producer.")
]
Aborted = Annotated[
    float, typer.Option(help="Share of records that are sent before in a transaction that is rolled back.")
]
Compacted = Annotated[
    float,
    typer.Option(
        help="Share of records with an earlier version, which compaction removes; pace backlog only."
    ),
]
