"""Drafts as trace records: the JSON of impressions and clicks.

Free of I/O. Values are put together from pieces that were encoded once (a JSON encoder would cost as much
as all the rest of the generator). The event time comes last, so that a value cut off in the middle has
none.
"""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps

from producers.draft import Draft, Flaw
from producers.entities import Entities
from producers.settings import CLICKS, TOPICS
from tidemark.events import write_time
from tidemark.trace import Record


class ValueWriter:
    """Writes drafts of one trace."""

    def __init__(self, entities: Entities) -> None:
        self._ads = [
            f'"ad_id":{dumps(ad)},"campaign_id":{dumps(campaign)}'
            for ad, campaign in zip(entities.ads, entities.campaign_of_ad, strict=True)
        ]
        self._plain_ads = [f'"ad_id":{dumps(ad)}' for ad in entities.ads]
        self._pages = [dumps(page) for page in entities.pages]
        agents = [dumps(agent) for agent in entities.user_agents]
        self._agent_of_user = {user: agents[entities.agent_of(user)] for user in entities.users}
        self._edge_agent = agents[0]
        self._seconds: dict[int, str] = {}
        self._millis = [f'.{ms:03d}Z"' for ms in range(1000)]

    def records(self, slices: list[list[Draft]]) -> Iterator[Record]:
        """The records of a trace, in order. The loop is written out, because it is a third of all the work."""
        impression, click, topics = self._impression, self._click, TOPICS
        for index, drafts in enumerate(slices):
            for draft in drafts:
                if draft.flaw:
                    yield self._flawed(draft, index)
                    continue
                topic, user, event_ms = draft.topic, draft.user, draft.event_ms
                write = click if topic else impression
                yield Record(
                    topic=topics[topic],
                    value=write(draft, f'"user_id":"{user}",', self._time(draft)),
                    arrival_ms=draft.arrival_ms,
                    partition=draft.partition,
                    key=user,
                    event_ms=event_ms,
                    slice=index,
                )

    def _flawed(self, draft: Draft, index: int) -> Record:
        write = self._click if draft.topic == CLICKS else self._impression
        user, time = f'"user_id":"{draft.user}",', self._time(draft)
        event_ms: int | None = None
        key: str | None = draft.user
        if draft.flaw is Flaw.NULL_KEY:
            user, key = ('"user_id":null,' if draft.number & 1 else ""), None
            value, event_ms = write(draft, user, time), draft.event_ms
        elif draft.flaw is Flaw.NULL_TIME:
            value = write(draft, user, "null")
        else:
            value = write(draft, user, time)
            value = value[: value.rindex(',"')]
            if draft.flaw is Flaw.NO_TIME:
                value += "}"
            elif draft.number & 1:
                value = "-- " + value[:20]
        return Record(
            topic=TOPICS[draft.topic],
            value=value,
            arrival_ms=draft.arrival_ms,
            partition=draft.partition,
            key=key,
            event_ms=event_ms,
            slice=index,
        )

    def _impression(self, draft: Draft, user: str, time: str) -> str:
        agent = self._agent_of_user.get(draft.user, self._edge_agent)
        return (
            f'{{"impression_id":"i-{draft.number:07d}",{user}{self._ads[draft.ad]},"page":{self._pages[draft.page]},'
            f'"user_agent":{agent},"impression_time":{time}}}'
        )

    def _click(self, draft: Draft, user: str, time: str) -> str:
        x, y = draft.number * 37 % 1280, draft.number * 91 % 720
        return (
            f'{{"click_id":"c-{draft.number:07d}",{user}{self._plain_ads[draft.ad]},"page":{self._pages[draft.page]},'
            f'"x":{x},"y":{y},"click_time":{time}}}'
        )

    def _time(self, draft: Draft) -> str:
        second, ms = divmod(draft.event_ms, 1000)
        if draft.sub_us:
            return f'"{write_time(draft.event_ms * 1000 + draft.sub_us)}"'
        start = self._seconds.get(second)
        if start is None:
            start = self._seconds[second] = '"' + write_time(second * 1_000_000)[:19]
        return start + self._millis[ms]
