"""What wrong rows have in common and right rows have not: a sentence for each property, which names the cause.

Free of I/O and of any decision: a cause changes no verdict. ``common_facts`` compares facts of wrong and of right rows,
``row_facts`` has the facts of the rows of a join, ``cause_lines`` makes the sentences. What is said is counted, never
guessed: the sentence has how many wrong rows have the fact, and how many right ones.
"""
