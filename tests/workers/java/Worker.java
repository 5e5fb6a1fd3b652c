import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The program of kafka-clients; lines.py describes the commands and events. */
public final class Worker {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int LATE = 7; // lines.py says of what
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";
    private static final Map<String, String> ASSIGNOR = Map.of(
            "range", "RangeAssignor",
            "roundrobin", "RoundRobinAssignor",
            "sticky", "StickyAssignor",
            "cooperative-sticky", "CooperativeStickyAssignor");

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    static void say(String event, String fields) {
        Instant now = Instant.now();
        String line = "{\"event\": \"" + event + "\", \"at_ns\": "
                + (now.getEpochSecond() * 1_000_000_000L + now.getNano())
                + (fields.isEmpty() ? "" : ", " + fields) + "}\n";
        synchronized (OUT) {
            OUT.print(line);
            OUT.flush();
        }
    }

    static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                json.append('\\').append(each);
            } else if (each < ' ') {
                json.append(String.format("\\u%04x", (int) each));
            } else {
                json.append(each);
            }
        }
        return json.append('"').toString();
    }

    static void sayConsumed(Iterable<ConsumerRecord<String, String>> records) {
        List<String> rows = new ArrayList<>();
        for (ConsumerRecord<String, String> each : records) {
            rows.add("[" + each.partition() + ", " + each.offset() + ", "
                    + quoted(each.key() == null ? "" : each.key()) + ", "
                    + quoted(each.value()) + "]");
        }
        if (!rows.isEmpty()) {
            say("consumed", "\"records\": " + rows);
        }
    }

    static void note(String text) {
        say("note", "\"text\": " + quoted(text));
    }

    /** Any assignor, and word of it where its assignment was made: in the leader alone. */
    public static final class Announced implements ConsumerPartitionAssignor, Configurable {
        private ConsumerPartitionAssignor assignor;
        private boolean hasAssigned;

        @Override
        public void configure(Map<String, ?> settings) {
            try {
                Class<?> type = Class.forName(ASSIGNORS + ASSIGNOR.get(settings.get("worker.assignor")));
                assignor = (ConsumerPartitionAssignor) type.getConstructor().newInstance();
            } catch (ReflectiveOperationException error) {
                throw new IllegalArgumentException(error);
            }
            if (assignor instanceof Configurable configurable) {
                configurable.configure(settings);
            }
        }

        @Override
        public ByteBuffer subscriptionUserData(Set<String> topics) {
            hasAssigned = false; // it joins again
            return assignor.subscriptionUserData(topics);
        }

        @Override
        public GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions) {
            hasAssigned = true;
            return assignor.assign(cluster, subscriptions);
        }

        @Override
        public void onAssignment(Assignment assignment, ConsumerGroupMetadata group) {
            assignor.onAssignment(assignment, group);
            if (hasAssigned) {
                say("leads", "\"generation\": " + group.generationId());
            }
        }

        @Override
        public List<RebalanceProtocol> supportedProtocols() {
            return assignor.supportedProtocols();
        }

        @Override
        public short version() {
            return assignor.version();
        }

        @Override
        public String name() {
            return assignor.name();
        }
    }

    /** A client that works until it has to leave. */
    interface Client {
        void step();

        void obey(String verb, Map<String, String> words, BlockingQueue<String> commands)
                throws InterruptedException;

        void close();
    }

    /** One consumer; its callbacks run inside poll and close, on the main thread. */
    private static final class Member implements ConsumerRebalanceListener, Client {
        private final String topic;
        private final Set<Integer> held = new TreeSet<>();
        // Consumed and not committed yet; lines.py says why it is kept.
        private final Map<Integer, Long> pending = new TreeMap<>();
        private final KafkaConsumer<String, String> consumer;
        private final String service;
        private int handled;

        Member(Map<String, String> words) {
            topic = words.get("topic");
            service = words.getOrDefault("service", "after");
            Properties settings = new Properties();
            settings.put("bootstrap.servers", words.get("bootstrap"));
            settings.put("group.id", words.get("group"));
            settings.put("client.id", words.get("client"));
            settings.put("auto.offset.reset", words.getOrDefault("reset", "earliest"));
            settings.put("enable.auto.commit", String.valueOf(service.equals("auto")));
            settings.put("max.poll.records", "50");
            if ("consumer".equals(words.get("protocol"))) {
                settings.put("group.protocol", "consumer");
                settings.put("group.remote.assignor", words.get("assignor"));
            } else {
                settings.put("session.timeout.ms", words.get("session"));
                settings.put("heartbeat.interval.ms", words.get("heartbeat"));
                settings.put("partition.assignment.strategy", Announced.class.getName());
                settings.put("worker.assignor", words.get("assignor"));
            }
            if (words.containsKey("instance")) {
                settings.put("group.instance.id", words.get("instance"));
            }
            if (words.containsKey("poll")) {
                settings.put("max.poll.interval.ms", words.get("poll"));
            }
            if (words.containsKey("request")) {
                settings.put("request.timeout.ms", words.get("request"));
                settings.put("default.api.timeout.ms", words.get("request"));
            }
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic), this);
        }

        private static List<Integer> numbers(Collection<TopicPartition> partitions) {
            return partitions.stream().map(TopicPartition::partition).sorted().toList();
        }

        private void sayOwns(String why, Collection<Integer> partitions) {
            int generation = consumer.groupMetadata().generationId();
            say("owns", "\"why\": \"" + why + "\", \"partitions\": " + partitions
                    + ", \"generation\": " + (generation < 0 ? "null" : generation));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            held.addAll(numbers(partitions));
            sayOwns("assigned", held);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (service.equals("released")) {
                commit();
            }
            held.removeAll(numbers(partitions));
            pending.keySet().retainAll(held);
            sayOwns("revoked", held);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            held.removeAll(numbers(partitions));
            pending.keySet().retainAll(held);
            sayOwns("lost", held);
        }

        @Override
        public void step() {
            consume(poll());
        }

        ConsumerRecords<String, String> poll() {
            return consumer.poll(POLL);
        }

        @Override
        public void obey(String verb, Map<String, String> words, BlockingQueue<String> commands)
                throws InterruptedException {
            switch (verb) {
                case "tell" -> sayOwns("told", numbers(consumer.assignment()));
                case "stall" -> {
                    ConsumerRecords<String, String> records = poll();
                    while (records.isEmpty()) {
                        records = poll();
                    }
                    say("stalled", "");
                    commands.take();
                    consume(records);
                }
                case "seek" -> consumer.seek(
                        new TopicPartition(topic, Integer.parseInt(words.get("partition"))),
                        Long.parseLong(words.get("offset")));
                default -> throw new IllegalArgumentException("no such command: " + verb);
            }
        }

        void consume(ConsumerRecords<String, String> records) {
            if (service.equals("late")) {
                for (ConsumerRecord<String, String> each : records) {
                    handle(List.of(each));
                    handled++;
                    if (handled % LATE == 0) {
                        commit();
                    }
                }
                return;
            }
            List<ConsumerRecord<String, String>> batch = new ArrayList<>();
            records.forEach(batch::add);
            if (service.equals("before")) {
                note(batch);
                commit();
            }
            handle(batch);
            if (service.equals("after")) {
                commit();
            }
        }

        private void note(List<ConsumerRecord<String, String>> records) {
            for (ConsumerRecord<String, String> each : records) {
                pending.put(each.partition(), each.offset() + 1);
            }
        }

        private void handle(List<ConsumerRecord<String, String>> records) {
            sayConsumed(records);
            if (!service.equals("before")) {
                note(records);
            }
        }

        private void commit() {
            if (pending.isEmpty()) {
                return;
            }
            List<String> pairs = new ArrayList<>();
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            pending.forEach((partition, offset) -> {
                pairs.add("[" + partition + ", " + offset + "]");
                ends.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset));
            });
            try {
                consumer.commitSync(ends);
            } catch (CommitFailedException | RebalanceInProgressException | RetriableException error) {
                Worker.note("commit failed: " + error);
                return;
            }
            pending.clear();
            say("committed", "\"offsets\": " + pairs);
        }

        @Override
        public void close() {
            if (service.equals("released")) {
                commit();
            }
            consumer.close();
        }
    }

    private static void produce(Map<String, String> words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words.get("bootstrap"));
        settings.put("client.id", "producer");
        if (words.containsKey("request")) {
            settings.put("request.timeout.ms", words.get("request"));
            settings.put("delivery.timeout.ms", 4 * Integer.parseInt(words.get("request")));
        }
        int first = Integer.parseInt(words.get("first"));
        int count = Integer.parseInt(words.get("count"));
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = first; number < first + count; number++) {
                sent.add(producer.send(new ProducerRecord<>(words.get("topic"), "key-" + number, "value-" + number)));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get(60, TimeUnit.SECONDS);
            }
        }
        say("produced", "\"count\": " + count);
    }

    static void readStdin(BlockingQueue<String> commands) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(line);
            }
        } catch (java.io.IOException error) {
            note("stdin: " + error);
        }
        Runtime.getRuntime().halt(3); // the scene is gone
    }

    private static void serve(BlockingQueue<String> commands) throws Exception {
        Client client = null;
        while (true) {
            if (client != null && commands.isEmpty()) {
                client.step();
                continue;
            }
            String[] command = commands.take().split(" ");
            Map<String, String> words = new HashMap<>();
            for (int index = 1; index < command.length; index++) {
                String[] pair = command[index].split("=", 2);
                words.put(pair[0], pair[1]);
            }
            switch (command[0]) {
                case "join" -> client =
                        words.containsKey("out") ? new Transactions.Program(words) : new Member(words);
                case "produce" -> produce(words);
                case "fence" -> Transactions.fence(words.get("bootstrap"), words.get("out"), words.get("client"));
                case "read" -> Transactions.read(
                        words.get("bootstrap"), words.get("out"), Integer.parseInt(words.get("partitions")));
                case "leave", "close" -> {
                    if (client != null) {
                        client.close();
                        client = null;
                    }
                    boolean isOver = command[0].equals("close");
                    say(isOver ? "closed" : "left", "");
                    if (isOver) {
                        return;
                    }
                }
                default -> client.obey(command[0], words, commands);
            }
        }
    }

    public static void main(String[] arguments) {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> readStdin(commands));
        reader.setDaemon(true);
        reader.start();
        // Loaded before it is called ready: the first use of these classes takes a second.
        try {
            Class.forName("org.apache.kafka.clients.consumer.internals.ClassicKafkaConsumer");
            Class.forName("org.apache.kafka.clients.consumer.internals.ConsumerCoordinator");
            say("ready", "");
            serve(commands);
        } catch (Exception error) {
            say("error", "\"text\": " + quoted(error.toString()));
            Runtime.getRuntime().halt(1);
        }
    }

    private Worker() {
    }
}
