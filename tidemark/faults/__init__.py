"""Faults: planned by a seed, struck at a named point in the life of a batch, journalled with what was seen."""
