"""Many small joins, each judged: a contract, a trace and a way to run it, on one warm driver.

``case``   what a case is, and how it is written to a run directory
``draw``   a seed -> a case: any contract, any trace, restarts anywhere
``warm``   runs cases one after the other on a driver that is up
``lanes``  several at once
``fuzz``   many seeds, until one disagrees
"""
