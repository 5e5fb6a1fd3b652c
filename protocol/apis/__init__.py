"""One module per API key; each declares its messages for all versions.

Structs have the names of Apache Kafka's own schemas, fields have theirs in snake case.
Durations end in ``_ms``. `protocol.registry` lists the modules.
"""
