"""Faults: things done to a stack on purpose, each at a known moment, with proof that it hit."""
