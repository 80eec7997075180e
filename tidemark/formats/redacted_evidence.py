"""``redacted`` of the manifest: that ids and keys are pseudonyms, and that other values are left out.

Free of Kafka and Spark. A run directory with ``redacted`` in its manifest was made by ``--redact`` or
``tidemark redact``. Its files are those of the run directory that it was made of, with these differences:

* a record of trace and flush has topic, partition, times and slice of its own, no key and no headers, and in its value
  the id, the keys and what the contract compares. Ids and keys are pseudonyms; of what is compared there are codes that
  compare as the values do. A record that cannot be read is the word ``redacted``;
* an output record has the headers of tidemark's sinks, and in its value the ids, the places of the input records, and a
  pseudonym of the whole record (``record``);
* ``contract`` describes these records: literals are codes, functions that decode are gone;
* ``command``, ``logs/``, ``code.zip``, ``pipeline.py``, ``functions.py`` and ``project/`` are missing, and of notes,
  reports of Spark and proofs of faults there are numbers, times and topics.
"""

from __future__ import annotations

import msgspec


class Redaction(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``redacted`` of the manifest.

    ``pseudonyms`` names the hash. ``salt`` is ``random``, or ``file`` if the caller has it: pseudonyms of two runs with
    one salt can be compared. ``sealed`` says whether what was redacted was as it had been sealed; the seal of redacted
    evidence is that of the redaction.
    """

    pseudonyms: str
    salt: str
    sealed: bool
