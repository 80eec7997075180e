"""A large run, judged by SQL where it is right, and reduced to the rest: the keys with differences, and a sample.

Keys do not meet each other, so what is wrong with one is found in a run of its rows alone. Nothing here says that a row
is wrong: what SQL cannot prove right, and a sample of what it can, goes to the judgement that small runs have.
"""
