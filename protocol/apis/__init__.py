"""One module per API key; each declares its messages for all versions.

Structs bear the names of Apache Kafka's own schemas, fields those names in
snake case. Durations end in ``_ms``. `protocol.registry` lists the modules.
"""
