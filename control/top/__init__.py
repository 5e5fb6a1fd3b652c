"""``kohort top``: a broker's metrics, live in the terminal."""
