"""Reassigns, lists and describes with kafka-python's admin client; prints JSON."""

from __future__ import annotations

import json
import sys

from kafka import KafkaAdminClient, TopicPartition


def main(bootstrap: str) -> None:
    """Moves t-0 to nodes 3 and 1, and cancels that."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    partition = TopicPartition("t", 0)
    begun = client.alter_partition_reassignments({partition: [3, 1]})
    (progress,) = client.list_partition_reassignments().values()
    cancelled = client.alter_partition_reassignments({partition: None})
    found = {
        "begun": list(begun.values()),
        "progress": progress,
        "cancelled": list(cancelled.values()),
        "left": len(client.list_partition_reassignments()),
        "metadata.version": client.describe_features()["metadata.version"]["finalized"],
        "topics": client.list_config_resources(["TOPIC"]),
        "log_dirs": len(client.describe_log_dirs()),
        "quorum": client.describe_metadata_quorum()["topics"][0]["topic_name"],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
