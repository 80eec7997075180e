"""What a stack runs with, found on this machine or fetched: Java, PySpark, jars, class-data-sharing archives.

``toolchain`` finds Java and PySpark, ``jars`` fetches what ``jars.lock`` lists (change versions only there), and
``cds_training`` and ``cds_writer`` write archives for faster starts. Nothing here starts a component or knows a
backend; everything is kept in the user's cache, shared by all projects. Layer: above ``components``, below the
backends.
"""
