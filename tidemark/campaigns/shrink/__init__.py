"""Makes the run of a bug smaller: the smallest trace, faults and settings that show the same bug.

flaky_trials       trials of a predicate that is dear and may be flaky, remembered by content
shrinker           the search: passes from coarse to fine, to a fixed point
shrinkable         what is made smaller: a case and its faults, their size and their digest
fault_passes       the passes over faults
record_passes      the passes over records: keys, batches, rows, fields, ids, times
setting_passes     the passes over run mode, partitions, settings, and the contract of a described join
near_finding       smaller starts of a run that takes long: what its finding names
trial_runs         trials on a stack: on a warm driver, or, with faults, by the runner
case_files         a case on disk as `tidemark run` takes it
bug_signature      which bug it is: what a smaller run must show to be the same
predicted_batches  the batches that Spark will make of a case
predicted_bug      whether Spark's rules, with its known defects, can show a bug at all: asked before a run
audited_case       the input of an audited query as a red run of a pipeline
offline            evidence made smaller by the judge alone, without a run
"""
