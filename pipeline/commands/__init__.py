"""``kohort pipeline``: its commands, each in a module of its name."""
