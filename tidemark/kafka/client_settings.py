"""Settings of Kafka's client in a file: a login is never on a command line, where every user of a machine sees it.

Free of Kafka. A line for each setting, ``NAME=VALUE``, as in the files of Kafka's own tools; the names are those of the
C client (librdkafka).
"""

from __future__ import annotations

from pathlib import Path

from tidemark.errors import UsageError


def read_client_settings(path: Path) -> dict[str, str]:
    """Settings of Kafka's client, ``NAME=VALUE`` in each line; ``#`` begins a comment. Raises ``UsageError``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{str(path)!r} cannot be read as settings of Kafka's client",
            detail=str(error),
            hint="a line for each setting: NAME=VALUE",
        ) from error
    settings = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals:
            raise UsageError(
                f"line {number} of {str(path)!r} is no setting of Kafka's client",
                detail=f"it is {line.strip()[:80]!r}",
                hint="a line for each setting: NAME=VALUE",
            )
        settings[name.strip()] = value.strip()
    return settings
