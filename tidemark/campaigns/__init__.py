"""Campaigns: many items run and judged one after the other, or several at once, each with an outcome of its own.

In the room: ``campaign`` (items, journal, resume, exit code) and what uses it (``fuzz``, ``soak``, ``versions``); cases
(``case``, ``chain_inputs``, ``random_cases``, ``state_stores``) and what runs (``warm_driver``, ``warm_workers``).
May be used by: the command line and tests. A new campaign is a ``Campaign`` with a type of outcome, nothing more.
Not here: how a run goes (``runner``), how it is judged (``oracle``), how a document looks (``report``).
"""
