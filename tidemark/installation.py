"""Which distribution this package was installed by, and whether another one has files in the same folder.

Free of everything but the standard library. The import package is ``tidemark``, its distribution ``tidemark-spark``: a
registry's ``tidemark`` is somebody else's package with the same import name. Installed side by side, each has
overwritten files of the other, and what then runs is a mixture. ``import tidemark`` warns of it, and ``tidemark
doctor`` calls it bad; where ``tidemark/__init__.py`` is the other package's, the command line ends with an error.
"""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

import tidemark

DISTRIBUTION = "tidemark-spark"
HINT = (
    f"make a new environment with {DISTRIBUTION} and without the other; or, in this one:"
    f" `pip uninstall tidemark {DISTRIBUTION}`, then install {DISTRIBUTION} again"
)


def other_owners(folder: Path) -> list[str]:
    """Distributions installed in ``folder`` that have files of ``tidemark/`` and are not this one: name and version."""
    found = set()
    for one in distributions(path=[str(folder)]):
        name = (one.metadata["Name"] or "").replace("_", "-").lower()
        owns = name == "tidemark" or any(file.parts[0] == "tidemark" for file in one.files or ())
        if owns and name != DISTRIBUTION:
            found.add(f"{one.metadata['Name']} {one.version}")
    return sorted(found)


def problem() -> str | None:
    """What is wrong with this installation; ``None`` if nothing is."""
    folder = Path(__file__).resolve().parent.parent
    if getattr(tidemark, "DISTRIBUTION", None) != DISTRIBUTION:
        return f"{folder / 'tidemark' / '__init__.py'} is of another package, which took the place of {DISTRIBUTION}'s"
    others = other_owners(folder)
    return f"{' and '.join(others)} has files in {folder / 'tidemark'}, too" if others else None
