"""The judge of chains: aggregations, deduplications and joins around a join, or alone (``tidemark.chain``).

Pure, as all of the judge. A model of its own, a machine for each step, simple where that of one join is fast:

    history   which rows of which source each batch read
    steps     what each step does with its rows and its two watermarks
    model     the steps together, batch after batch            (opinion 1)
    opinion   the same in SQL                                  (opinion 2)
    output    what came out                                    (opinion 3)
    compare   row by row
    anchors   what a run consisted of, and what it reached
    judge     all of it, put together
"""
