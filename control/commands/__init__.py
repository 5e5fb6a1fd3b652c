"""The commands: one module each, named after the command.

A module imports little, so that ``kohort --help`` is quick; a command loads the rest
when it is called.
"""
