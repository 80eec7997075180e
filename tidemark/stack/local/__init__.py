"""The backend ``local``: every component is a process of this machine, on ports of the loopback address.

``local_backend`` prepares a stack (Java, PySpark, jars, ports); ``process_runtime`` starts, signals and inspects its
processes. The commands and settings of the components do not belong here: they are the same for all backends
(``components``). Layer: beside ``compose``, which it must not import; above ``install`` and ``components``.
"""
