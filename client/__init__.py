"""The asyncio client: consumer, producer and admin, for kohort and for Apache Kafka."""
