"""Makes evidence smaller without a run: the judge alone says whether what is left shows the same finding.

held_evidence      evidence in memory, and as the files of a run directory
kept_evidence      what is kept of it: rows, output, batches and what else was observed
smaller_evidence   the evidence that is left of what is kept: new offsets, batches and watermarks
evidence_passes    the passes of the search
same_finding       the predicate: the same finding, and nothing wrong that was not wrong before
evidence_search    the search, its journal, and what comes out
"""
