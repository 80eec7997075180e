"""Measurements, side by side in one run, so that what counts is a ratio and not the machine.

One file each, a program of its own: ``python -m bench.NAME`` shows progress on standard error and prints, as its last
line on standard output, one JSON object of numbers. ``python -m bench`` runs all of them.
"""
