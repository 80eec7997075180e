"""Faults: planned by a seed, injected at a commit point of a batch, journalled with what was seen.

``schedule`` (words to plan) · ``injector`` (the thread) · ``driver`` ``executor`` ``component`` (what is injected) ·
``overlaps`` ``joint_injection`` (faults that overlap) · ``commit_points`` ``sink_progress`` ``target`` (where a batch
is). Nothing here judges rows or reads evidence, and nothing is injected without a proof that the batch is at its point;
whatever is stopped is resumed on every way out.

To add a fault, touch two files and a docs page: name it, with its points, in ``tidemark/formats/faults.py``; inject it
in ``driver.py``, ``executor.py`` or ``component.py`` (``effects``); describe it in docs/howto/inject-faults.md. Only
one in a new kind of component takes a line in the injector's table, too.
"""
