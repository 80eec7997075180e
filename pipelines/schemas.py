"""The records that the bundled pipelines read: impressions and clicks, as schemas for ``tidemark.read_json``."""

from __future__ import annotations

IMPRESSION = (
    "impression_id STRING, user_id STRING, ad_id STRING, campaign_id STRING, impression_time TIMESTAMP"
)
CLICK = "click_id STRING, user_id STRING, ad_id STRING, click_time TIMESTAMP"
