"""How the join keys of impressions are distributed: mildly skewed, by Zipf's law, or one key with a share of them.

Pure, without I/O. A join key is a user with an ad. Written ``mild``, ``zipf[:EXPONENT]`` or ``one[:SHARE]``:

``mild``   a few users and ads are frequent and most are rare, as everywhere; no key has many rows (the default).
``zipf``   the frequency of a user, and of an ad, falls with its rank to the power of the exponent (1.2): the first
           user has a seventh to a third of the impressions, more in a small trace.
``one``    one key has this share of the impressions (0.1), and the others are as in ``mild``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.errors import UsageError

MILD, ZIPF, ONE = "mild", "zipf", "one"
DEFAULTS = {MILD: 0.0, ZIPF: 1.2, ONE: 0.1}
"""Each mode, and its number."""
MOST_EXPONENT = 10.0


@dataclass(frozen=True)
class KeySkew:
    """``exponent`` of Zipf's law, 0 without; ``one`` is the share of one key."""

    exponent: float = 0.0
    one: float = 0.0


def parse_key_skew(text: str) -> KeySkew:
    """The distribution of that name; raises ``UsageError``."""
    mode, colon, number = text.partition(":")
    try:
        value = float(number) if colon else DEFAULTS[mode]
    except (KeyError, ValueError):
        raise _refused(text) from None
    if mode == ZIPF and 0 < value <= MOST_EXPONENT:
        return KeySkew(exponent=value)
    if mode == ONE and 0 <= value <= 1:
        return KeySkew(one=value)
    if mode == MILD and not colon:
        return KeySkew()
    raise _refused(text)


def _refused(text: str) -> UsageError:
    return UsageError(
        f"cannot read the skew of keys {text!r}",
        detail=f"an exponent is more than 0, and at most {MOST_EXPONENT:g}; a share lies between 0 and 1",
        hint="write mild, zipf[:EXPONENT] or one[:SHARE], for instance one:0.1",
    )
