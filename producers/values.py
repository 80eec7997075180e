"""Encodes drafts as lines of a trace: the event as a JSON value, inside the record's JSON.

Pure, without I/O. A line is a template filled with fragments that were encoded once, because encoding each value and
then each record would cost more than the rest of the generator. A test decodes and encodes the lines with
``tidemark.formats.trace`` and expects the same bytes. The event time is the last field, so a truncated value has none.
"""

from __future__ import annotations

from json import dumps

import msgspec

from producers.draft import Draft, Flaw
from producers.entities import Entities
from producers.settings import TOPICS
from tidemark.formats.events import write_time
from tidemark.formats.trace import Absent, Record

IMPRESSION = '{"impression_id":"i-%07d",%s%s,"page":%s,"user_agent":%s,"impression_time":%s}'
CLICK = '{"click_id":"c-%07d",%s%s,"page":%s,"x":%d,"y":%d,"click_time":%s}'
VALUES = (IMPRESSION, CLICK)
LINES = tuple(
    f'{{"topic":"{topic}","value":{dumps(value)},"arrival_ms":%d%s,"key":"%s","event_ms":%d%s'
    for topic, value in zip(TOPICS, VALUES, strict=True)
)


class LineWriter:
    """Encodes the drafts of one trace. It holds each pool twice: encoded for a value, and escaped for a line."""

    def __init__(self, entities: Entities, partitions: int) -> None:
        ads = [f'"ad_id":{dumps(ad)}' for ad in entities.ads]
        shown_ads = [
            f'{ad},"campaign_id":{dumps(campaign)}'
            for ad, campaign in zip(ads, entities.campaign_of_ad, strict=True)
        ]
        agents = [dumps(agent) for agent in entities.user_agents]
        self._ads = (shown_ads, ads)
        self._pages = [dumps(page) for page in entities.pages]
        self._agents = agents
        self._ads_in_line = (_escaped(shown_ads), _escaped(ads))
        self._pages_in_line = _escaped(self._pages)
        self._agents_in_line = _escaped(agents)
        self._agent_of = entities.agent_of
        self._seconds: dict[int, str] = {}
        self._millis = [f'.{ms:03d}Z\\"' for ms in range(1000)]
        self._partitions = ["", *(f',"partition":{number}' for number in range(1, partitions))]

    def chunk(self, drafts: list[Draft], index: int) -> bytes:
        """The lines of some records of slice ``index``; the last one has no newline."""
        return "\n".join(self._lines(drafts, index)).encode()

    def _lines(self, drafts: list[Draft], index: int) -> list[str]:
        """Lines of one slice. The loop has few helper calls, because it is almost half of the generator's time."""
        impression, click = LINES
        shown_ads, ads = self._ads_in_line
        pages, agents, partitions, time = (
            self._pages_in_line,
            self._agents_in_line,
            self._partitions,
            self._time_in_line,
        )
        agent_of = self._agent_of
        tail = f',"slice":{index}}}' if index else "}"
        lines = []
        for draft in drafts:
            user, event_ms, number = draft.user, draft.event_ms, draft.number
            if draft.flaw or draft.is_edge or draft.absent or draft.key or draft.skew_ms or draft.transaction:
                lines.append(msgspec.json.encode(self._record(draft, index)).decode())
            elif draft.topic:
                lines.append(
                    click
                    % (
                        number, f'\\"user_id\\":\\"{user}\\",', ads[draft.ad], pages[draft.page],
                        number * 37 % 1280, number * 91 % 720, time(event_ms),
                        draft.arrival_ms, partitions[draft.partition], user, event_ms, tail,
                    )
                )  # fmt: skip
            else:
                lines.append(
                    impression
                    % (
                        number, f'\\"user_id\\":\\"{user}\\",', shown_ads[draft.ad], pages[draft.page],
                        agents[agent_of(user)], time(event_ms),
                        draft.arrival_ms, partitions[draft.partition], user, event_ms, tail,
                    )
                )  # fmt: skip
        return lines

    def _record(self, draft: Draft, index: int) -> Record:
        """The record of a draft with more than a user, an ad and a time in milliseconds."""
        user, time = f'"user_id":"{draft.user}",', f'"{write_time(draft.event_ms * 1000 + draft.sub_us)}"'
        event_ms: int | None = draft.event_ms
        key: str | None = draft.user
        if draft.flaw is Flaw.NULL_KEY:
            user, key = ('"user_id":null,' if draft.number & 1 else ""), None
        elif draft.flaw:
            event_ms = None
        value = self._value(draft, user, "null" if draft.flaw is Flaw.NULL_TIME else time)
        if draft.flaw in (Flaw.NO_TIME, Flaw.NOT_JSON):
            value = value[: value.rindex(',"')]
            if draft.flaw is Flaw.NO_TIME:
                value += "}"
            elif draft.number & 1:
                value = "-- " + value[:20]
        record = Record(
            topic=TOPICS[draft.topic],
            value=value,
            arrival_ms=draft.arrival_ms,
            partition=draft.partition,
            key=draft.key or key,
            timestamp_ms=draft.arrival_ms + draft.skew_ms if draft.skew_ms else None,
            event_ms=event_ms,
            slice=index,
            transaction=draft.transaction,
        )
        return record if draft.absent is None else _absent(record, draft.absent)

    def _value(self, draft: Draft, user: str, time: str) -> str:
        ad, page = self._ads[draft.topic][draft.ad], self._pages[draft.page]
        if draft.topic:
            x, y = draft.number * 37 % 1280, draft.number * 91 % 720
            return CLICK % (draft.number, user, ad, page, x, y, time)
        agent = self._agents[0 if draft.is_edge else self._agent_of(draft.user)]
        return IMPRESSION % (draft.number, user, ad, page, agent, time)

    def _time_in_line(self, event_ms: int) -> str:
        second, ms = divmod(event_ms, 1000)
        start = self._seconds.get(second)
        if start is None:
            start = self._seconds[second] = '\\"' + write_time(second * 1_000_000)[:19]
        return start + self._millis[ms]


def _absent(record: Record, why: Absent) -> Record:
    """What a trace has in the place of a record that is not there for a reader of committed records."""
    if why == "aborted":
        return msgspec.structs.replace(record, value=None, absent=why, sent=record.value)
    key = record.key if why == "compacted" else None
    return Record(
        topic=record.topic, partition=record.partition, slice=record.slice, arrival_ms=record.arrival_ms, key=key,
        transaction=record.transaction, absent=why,
    )  # fmt: skip


def _escaped(pieces: list[str]) -> list[str]:
    """Fragments of a JSON value, escaped for the JSON string that contains the value."""
    return [dumps(piece)[1:-1] for piece in pieces]
