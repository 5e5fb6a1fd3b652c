"""`kohort demo`: a consumer group's life in one terminal."""
