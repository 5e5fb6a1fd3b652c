import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The transactions of the program: members that copy, fenced producers, and readers. */
final class Transactions {
    private static final Duration POLL = Duration.ofMillis(100);

    private static KafkaProducer<String, String> producer(String bootstrap, String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", transactionalId);
        settings.put("transactional.id", transactionalId);
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, Map<String, String> others) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.putAll(others);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    /** One transactional producer for each member; the group's generation fences it. */
    static final class Program implements Worker.Client {
        private final String out;
        private final int abortEvery;
        private int begun;
        private final KafkaProducer<String, String> producer;
        private final KafkaConsumer<String, String> consumer;

        Program(Map<String, String> words) {
            out = words.get("out");
            abortEvery = Integer.parseInt(words.get("abort"));
            producer = producer(words.get("bootstrap"), words.get("client"));
            consumer = consumer(words.get("bootstrap"), Map.of(
                    "group.id", words.get("group"),
                    "client.id", words.get("client"),
                    "max.poll.records", "10",
                    "session.timeout.ms", words.get("session"),
                    "heartbeat.interval.ms", words.get("heartbeat")));
            consumer.subscribe(List.of(words.get("topic")));
        }

        /** One poll, and its transaction. */
        @Override
        public void step() {
            ConsumerRecords<String, String> records = consumer.poll(POLL);
            if (records.isEmpty()) {
                return;
            }
            try {
                transact(records);
            } catch (ProducerFencedException error) {
                throw error;
            } catch (KafkaException error) {
                Worker.note("aborts: " + error);
                producer.abortTransaction();
                rewind();
            }
        }

        private void transact(ConsumerRecords<String, String> records) {
            Worker.sayConsumed(records);
            boolean aborts = ++begun % abortEvery == 0;
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (ConsumerRecord<String, String> each : records) {
                producer.send(new ProducerRecord<>(out, each.key(), each.value()));
                ends.put(new TopicPartition(each.topic(), each.partition()),
                        new OffsetAndMetadata(each.offset() + 1));
            }
            if (aborts) {
                producer.flush();
                producer.abortTransaction();
                rewind();
            } else {
                producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
                producer.commitTransaction();
            }
            Worker.say("ended", "\"is_commit\": " + !aborts + ", \"records\": " + records.count());
        }

        private void rewind() {
            consumer.committed(consumer.assignment()).forEach((place, committed) ->
                    consumer.seek(place, committed == null ? 0 : committed.offset()));
        }

        @Override
        public void obey(String verb, Map<String, String> words, BlockingQueue<String> commands) {
            throw new IllegalArgumentException("no such command: " + verb);
        }

        @Override
        public void close() {
            consumer.close();
            producer.close();
        }
    }

    static void fence(String bootstrap, String out, String transactionalId) {
        KafkaProducer<String, String> first = producer(bootstrap, transactionalId);
        first.beginTransaction();
        first.send(new ProducerRecord<>(out, "fenced", "1"));
        first.flush();
        try (KafkaProducer<String, String> second = producer(bootstrap, transactionalId)) {
            String text = "";
            try {
                first.commitTransaction();
            } catch (ProducerFencedException | InvalidProducerEpochException error) {
                text = error.toString();
            }
            second.beginTransaction();
            second.send(new ProducerRecord<>(out, "fencing", "2"));
            second.commitTransaction();
            Worker.say("fenced", "\"text\": " + Worker.quoted(text));
        }
        first.close();
    }

    static void read(String bootstrap, String out, int partitions) {
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, Map.of())) {
            List<TopicPartition> places = new ArrayList<>();
            for (int partition = 0; partition < partitions; partition++) {
                places.add(new TopicPartition(out, partition));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Set<Integer> ended = new HashSet<>();
            while (ended.size() < partitions) {
                List<ConsumerRecord<String, String>> records = new ArrayList<>();
                for (ConsumerRecord<String, String> each : consumer.poll(POLL)) {
                    if (each.key().equals("end")) {
                        ended.add(each.partition());
                    } else {
                        records.add(each);
                    }
                }
                Worker.sayConsumed(records);
            }
        }
        Worker.say("read", "");
    }

    private Transactions() {
    }
}
