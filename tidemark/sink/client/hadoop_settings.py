"""Translates what Spark was told of an object store, so that the driver's Python reads a checkpoint where Spark writes.

Addresses only: a login in ``spark.hadoop.*`` is Spark's own, and Python uses that of the driver's environment.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

S3A_SCHEMES = ("s3", "s3a", "s3n")


def store_settings(checkpoint: str, conf: Callable[[str], str | None]) -> str:
    """The option ``checkpointStore`` for a checkpoint, from the session's ``spark.hadoop.fs.s3a.*``.

    ``conf`` gives the value of a Spark setting, or ``None``. A setting for one bucket precedes that for all, as in
    Hadoop (``fs.s3a.bucket.NAME.endpoint``). Empty for other schemes, and where nothing is set.
    """
    parts = urlsplit(checkpoint)
    if parts.scheme not in S3A_SCHEMES:
        return ""

    def told(name: str) -> str | None:
        of_bucket = conf(f"spark.hadoop.fs.s3a.bucket.{parts.netloc}.{name}")
        return of_bucket or conf(f"spark.hadoop.fs.s3a.{name}")

    settings: dict[str, str] = {}
    endpoint, region = told("endpoint"), told("endpoint.region")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        plain = (told("connection.ssl.enabled") or "true").lower() == "false"
        settings |= {"endpoint_override": host, "scheme": scheme or ("http" if plain else "https")}
    if region:
        settings["region"] = region
    return urlencode(settings)
