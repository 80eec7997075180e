"""A topic that is silent for long: nothing arrives on it for a part of the trace, and what happened meanwhile after it.

Pure, without I/O. Under the policy ``min`` the watermark stands as long; under ``max`` it goes on, and what comes after
the silence is late. Edge rows that would arrive in that time are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from producers.draft import Draft
from tidemark.errors import UsageError


@dataclass(frozen=True)
class Silence:
    """``topic`` is an index into ``settings.TOPICS``; ``end_ms`` is the first moment at which it is heard again."""

    topic: int
    start_ms: int
    end_ms: int

    def postpone(self, drafts: Sequence[Draft]) -> None:
        """Let what would arrive in this time arrive at its end."""
        for draft in drafts:
            if draft.topic == self.topic and self.start_ms <= draft.arrival_ms < self.end_ms:
                draft.arrival_ms = self.end_ms

    def heard(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Those that arrive before or after it."""
        return [
            one
            for one in drafts
            if one.topic != self.topic or not self.start_ms <= one.arrival_ms < self.end_ms
        ]


def parse_silence(text: str, topics: Sequence[str]) -> tuple[int, float] | None:
    """Topic and share of ``TOPIC:SHARE``; ``None`` for an empty text. Raises ``UsageError``."""
    if not text:
        return None
    topic, _, share = text.partition(":")
    try:
        number = float(share)
    except ValueError:
        number = -1.0
    if topic not in topics or not 0 <= number < 1:
        raise UsageError(
            f"cannot read the silence {text!r}",
            detail=f"topics: {', '.join(topics)}; a share lies between 0 and 1",
            hint="write TOPIC:SHARE, for instance clicks:0.3",
        )
    return topics.index(topic), number


def silence_in(
    rng: Random, asked: tuple[int, float] | None, start_ms: int, duration_ms: int
) -> Silence | None:
    """Where the silence is, somewhere in a trace of this length; ``None`` if there is none."""
    if asked is None or not (length_ms := int(asked[1] * duration_ms)):
        return None
    begin_ms = start_ms + rng.randrange(max(duration_ms - length_ms, 1))
    return Silence(asked[0], begin_ms, begin_ms + length_ms)
