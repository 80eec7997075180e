"""Text of anybody's data on its way into a document of another language: Markdown, XML.

Free of I/O. What cannot be seen, or would change how its neighbours are read, is shown by its number (``\\u202e``).
"""

from __future__ import annotations

import re
import unicodedata

_UNSEEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
"""Control, format (as those that change the direction of writing), unassigned, private, surrogates, line ends."""
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may have (its production ``Char``)."""


def one_line(text: str, longest: int) -> str:
    """Text on one line, with what cannot be seen by its number; cut where it is longer than ``longest`` characters."""
    shown = "".join(
        _number_of(character) if unicodedata.category(character) in _UNSEEN else character
        for character in " ".join(text[: 2 * longest].split())
    )
    return shown if len(shown) <= longest else f"{shown[:longest]}…"


def xml_text(text: str) -> str:
    """Text that XML may have, with what it may not by its number."""
    return _NO_XML.sub(lambda found: _number_of(found[0]), text)


def _number_of(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
