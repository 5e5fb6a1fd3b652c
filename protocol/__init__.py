"""The Kafka wire protocol: bytes, independent of the rest of kohort."""
