"""HTTP beside a broker, and the command ``kohort``."""
