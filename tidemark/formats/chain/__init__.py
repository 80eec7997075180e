"""The chain: the contract of a pipeline with several stateful steps, or without a join, as a tree of steps.

Free of everything but the standard library, as ``tidemark.formats.contract`` is. A chain takes the place of
the contract in
what ``tidemark contract NAME`` prints, in ``contract.json`` and in ``manifest.json``. It is recognised by its field
``chain``, the step whose rows are written::

    {"name": "clicks_per_window", "policy": "min", "output": ["user_id", "clicked_in", "clicks"],
     "chain": {"step": "aggregate", "keys": ["user_id"], "values": [{"name": "clicks", "function": "count"}],
      "input": {"step": "window", "name": "clicked_in", "window_ms": 10000,
       "input": {"step": "source", "topic": "clicks", "time": "click_time", "watermark_delay_ms": 20000,
                 "fields": [{"name": "user_id"}], "required": ["user_id"]}}}}

==============  ======================================================================================================
``source``      Records of a topic: their ``fields`` (``tidemark.formats.record_fields``; strings or bigints in the end)
                 and their event ``time``; what is no JSON is read by functions (``decode``, ``encode``), as for the
                 side of a contract. A record that cannot be read, has NULL in a ``required`` field or does not
                 pass ``filters`` (of bigints) does not reach the watermark. A topic may be read by several sources.
``window``      Replaces the event time by its tumbling window, which is identified by its end.
``aggregate``   One row for each value of ``keys`` and of the event time.
``where``       Filters an aggregate by its values. Every other filter runs upstream of the watermark: see ``source``.
``deduplicate`` ``dropDuplicates(keys)``, or ``dropDuplicatesWithinWatermark(keys)``.
``join``        Keys are equal in pairs, ``bound`` limits ``left time - right time``, ``conditions`` compare numbers of
                both sides. ``time`` is the event time of the joined rows; the other becomes an ordinary field.
                Spark's optimizer moves a left semi join below an aggregate or a join on its left, so that is where
                it is described; it cannot if a condition has a value of that aggregate.
``limit``       The first ``rows`` rows that the query reads. Only as the last step, and not where Spark's optimizer
                would select other rows: above a left or right outer join, or a source with a watermark.
==============  ======================================================================================================

A field name is unique in the whole chain. Keys of joins and aggregates are never NULL. Times and windows (by their
ends) are TIMESTAMPs in the output, in JSON with milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.errors import BrokenContract
from tidemark.formats.chain.problems import problem, problem_of_sources
from tidemark.formats.chain.steps import (
    TIME,
    Aggregate,
    Deduplicate,
    Join,
    Limit,
    Source,
    Step,
    Value,
    Where,
    Window,
    inputs_of,
    is_window,
    never_null,
    step_from_json,
    step_to_json,
    time_of,
    types_of,
    walk,
)
from tidemark.formats.contract import Contract, WatermarkPolicy, names_in
from tidemark.formats.field_types import wrong_type
from tidemark.formats.record_fields import BIGINT, STRING, Field

__all__ = [
    "BIGINT",
    "STRING",
    "TIME",
    "Aggregate",
    "Chain",
    "Deduplicate",
    "Field",
    "Join",
    "Limit",
    "Source",
    "Step",
    "Value",
    "Where",
    "Window",
    "decoders_of",
    "inputs_of",
    "is_chain",
    "is_window",
    "never_null",
    "read_contract",
    "time_of",
    "topics_of",
    "types_of",
    "walk",
]


@dataclass(frozen=True)
class Chain:
    """The whole promise of one pipeline; ``output`` names the fields of its output records.

    ``accept`` names known defects of Spark that it lives with, as in a contract.
    """

    name: str
    last: Step
    output: tuple[str, ...]
    policy: WatermarkPolicy = WatermarkPolicy.MIN
    accept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if wrong := wrong_type(self):
            self._refuse(wrong)
        for step in walk(self.last):
            told = problem(step, is_last=step is self.last)
            if told:
                self._refuse(f"{type(step).__name__.lower()}: {told}")
        if told := problem_of_sources(self.sources):
            self._refuse(told)
        unknown = [name for name in self.output if name not in types_of(self.last)]
        if unknown or not self.output:
            self._refuse(
                f"output {self.output}: its last step has the fields {', '.join(types_of(self.last))}"
            )

    def _refuse(self, what: str) -> None:
        hint = "the docstring of tidemark/formats/chain/__init__.py says what each step is"
        raise BrokenContract(f"chain {self.name!r}: {what}", hint=hint)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps; each follows its inputs."""
        return tuple(walk(self.last))

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources, from left to right."""
        return tuple(step for step in self.steps if isinstance(step, Source))

    @property
    def topics(self) -> tuple[str, ...]:
        """The logical topics, each once, in the order in which ``build`` takes them."""
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        about = {"name": self.name, "policy": str(self.policy), "output": list(self.output)}
        return {**about, "accept": list(self.accept), "chain": step_to_json(self.last)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Chain:
        """The reverse of :meth:`to_json`; raises ``BrokenContract`` for a missing or unknown field."""
        try:
            return cls(
                name=data["name"],
                last=step_from_json(data["chain"]),
                output=tuple(data["output"]),
                policy=WatermarkPolicy(data.get("policy", "min")),
                accept=names_in(data.get("accept", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise BrokenContract(
                f"chain {data.get('name', '?')!r} cannot be read",
                detail=f"{type(error).__name__}: {error}",
                hint="the docstring of tidemark/formats/chain/__init__.py shows a whole one",
            ) from error


def is_chain(data: Mapping[str, Any]) -> bool:
    """Whether a contract in JSON is a chain."""
    return "chain" in data


def read_contract(data: Mapping[str, Any]) -> Contract | Chain:
    """A contract in JSON, of either form; raises ``BrokenContract``."""
    return Chain.from_json(data) if is_chain(data) else Contract.from_json(data)


def topics_of(contract: Contract | Chain) -> tuple[str, ...]:
    """The logical topics that a pipeline reads, in the order in which ``build`` takes them."""
    return contract.topics if isinstance(contract, Chain) else (contract.left.topic, contract.right.topic)


def decoders_of(contract: Contract | Chain) -> dict[str, tuple[str, str]]:
    """The names of the functions that decode and encode the records of a topic, by topic; of other topics nothing."""
    inputs = contract.sources if isinstance(contract, Chain) else (contract.left, contract.right)
    return {one.topic: (one.decode, one.encode) for one in inputs if one.decode and one.encode}
