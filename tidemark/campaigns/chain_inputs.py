"""The inputs of a chain as the sides of a contract, so that its run is a case like that of one join.

Free of Kafka and Spark. A topic is a side with all text fields that its sources read as keys. What it promises is the
chain: that is its JSON, by which a run is started and judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidemark.formats.chain import BIGINT, Chain, Join, Source, Window, is_chain
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side


@dataclass(frozen=True)
class ChainInputs(Contract):
    """``left`` and ``right`` are the first and the last of ``sides``, one for each topic; ``bound`` is as far as rows
    reach through all steps.
    """

    chain: Chain | None = None
    sides: tuple[Side, ...] = ()

    def __post_init__(self) -> None:
        """What is asked of the sides of one join is not asked of these."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The logical topics, each once."""
        return tuple(side.topic for side in self.sides)

    @property
    def steps(self) -> str:
        """The stateful steps from the first to the last, in words: ``aggregate, left_outer join``."""
        return ", ".join(_named_steps(self.chain)) if self.chain is not None else ""

    def to_json(self) -> dict[str, Any]:
        """The chain."""
        return {} if self.chain is None else self.chain.to_json()


def inputs_of_chain(chain: Chain) -> ChainInputs:
    """The inputs of a chain."""
    sides = tuple(_side(chain, topic) for topic in chain.topics)
    bounds = (step.bound for step in chain.steps if isinstance(step, Join))
    reach_ms = sum(max(abs(one.lower_ms or 0), abs(one.upper_ms or 0)) for one in bounds)
    reach_ms += sum(step.window_ms for step in chain.steps if isinstance(step, Window))
    return ChainInputs(
        name=chain.name,
        kind=JoinKind.INNER,
        left=sides[0],
        right=sides[-1],
        bound=Bound(-reach_ms, reach_ms),
        output=Output(chain.output[0], None),
        policy=chain.policy,
        accept=chain.accept,
        chain=chain,
        sides=sides,
    )


def contract_of(data: dict[str, Any]) -> Contract:
    """A contract in JSON, or the inputs of a chain; raises ``BrokenContract``."""
    return inputs_of_chain(Chain.from_json(data)) if is_chain(data) else Contract.from_json(data)


def _side(chain: Chain, topic: str) -> Side:
    sources = [source for source in chain.sources if source.topic == topic]
    first = sources[0]
    fields = tuple(dict.fromkeys(field for source in sources for field in source.fields))
    texts = tuple(dict.fromkeys(field.name for field in fields if field.made.kind != BIGINT))
    return Side(
        topic=topic,
        id=texts[0] if texts else fields[0].name,
        keys=texts,
        time=first.time,
        watermark_delay_ms=max(source.watermark_delay_ms or 0 for source in sources),
        fields=(*fields, *dict.fromkeys(source.time_field for source in sources)),
        time_format=first.time_format,
        time_zone=first.time_zone,
        decode=first.decode,
        encode=first.encode,
    )


def _named_steps(chain: Chain) -> Iterator[str]:
    for step in chain.steps:
        if isinstance(step, Join):
            yield f"{step.kind} join"
        elif not isinstance(step, Source | Window):
            yield type(step).__name__.lower()
