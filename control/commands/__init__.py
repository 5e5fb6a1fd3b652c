"""The commands that are clients: they work against any Kafka.

A module with a command in it imports little, and only once that command is called
for: what it does stands in another, which needs the client.
"""
