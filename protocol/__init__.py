"""The Kafka wire protocol: bytes, and nothing else of kohort."""
