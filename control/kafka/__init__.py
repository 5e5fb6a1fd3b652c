"""The work of the commands that are clients of any Kafka broker.

Their options stand in `kohort.control.commands`, whose modules load the client only
when a command is called.
"""
