"""librdkafka: list_consumer_group_offsets ends the process with SIGSEGV."""

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from kohort.broker.server import Broker
from kohort.control.group import Group

with Broker(nodes=3) as broker:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = ConsumerGroupTopicPartitions("billing", [TopicPartition("orders", 0)])
    for _ in range(2):
        found = admin.list_consumer_group_offsets([wanted])
        print(found["billing"].result(10).topic_partitions, flush=True)
        broker.call(lambda: Group(broker, "billing").move())
