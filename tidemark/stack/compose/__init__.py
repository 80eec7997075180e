"""The backend ``compose``: every component is a container of the local Docker engine.

``compose_backend`` prepares a stack, ``container_runtime`` starts, freezes and inspects its containers, ``image``
builds their image; ``compose/*.yaml`` and ``compose/Dockerfile`` at the project's root describe both. Only this package
may import the Docker client. The settings of the components do not belong here: they are the same for all backends
(``components``). Layer: beside ``local``, which it must not import; above ``install`` and ``components``.
"""
