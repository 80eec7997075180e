"""How many records the topics of a manifest have, and where each partition begins."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.formats.manifest import InputTopic


def records_in(inputs: Mapping[str, InputTopic]) -> int:
    """How many records a run wrote to its inputs, or an audit read of them."""
    return sum(
        end - topic.start_offsets.get(part, 0)
        for topic in inputs.values()
        for part, end in topic.end_offsets.items()
    )


def first_offsets(inputs: Mapping[str, InputTopic]) -> dict[tuple[str, int], int]:
    """The first offset of each partition, by the logical topic and the number of the partition."""
    return {
        (name, int(part)): start
        for name, topic in inputs.items()
        for part, start in topic.start_offsets.items()
    }
