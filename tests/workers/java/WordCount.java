import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;

/**
 * Kafka Streams counts words: each character of a line is one. Its commands:
 *
 * <p>{@code count bootstrap= topic= out= application= client= guarantee= dir=}: every count
 * goes to `out`, with the word as its key and `COUNT CLIENT` as its value. {@code close}.
 *
 * <p>When its tasks change, it reports how many it has: {@code {"event": "tasks", "count": n}}.
 */
public final class WordCount {
    // A killed instance's transaction is aborted after this time.
    private static final int TRANSACTION_MS = 3_000;

    private static KafkaStreams count(Map<String, String> words) {
        String client = words.get("client");
        boolean exactly = words.get("guarantee").equals(StreamsConfig.EXACTLY_ONCE_V2);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words.get("bootstrap"));
        settings.put("application.id", words.get("application"));
        settings.put("client.id", client);
        settings.put("processing.guarantee", words.get("guarantee"));
        settings.put("state.dir", words.get("dir"));
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("dsl.store.suppliers.class",
                "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers");
        settings.put("statestore.cache.max.bytes", "0"); // each count goes on
        settings.put("replication.factor", "1");
        // With at_least_once, an instance that is killed has never committed.
        settings.put("commit.interval.ms", exactly ? "500" : "600000");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", "6000");
        settings.put("consumer.heartbeat.interval.ms", "300");
        if (exactly) {
            settings.put("producer.transaction.timeout.ms", TRANSACTION_MS);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(words.get("topic"));
        lines.flatMapValues(line -> Arrays.asList(line.split("")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .mapValues(count -> count + " " + client)
                .to(words.get("out"));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            Worker.say("error", "\"text\": " + Worker.quoted(error.toString()));
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        return streams;
    }

    private static void serve(BlockingQueue<String> commands) throws InterruptedException {
        KafkaStreams streams = null;
        while (true) {
            String[] command = commands.take().split(" ");
            Map<String, String> words = new HashMap<>();
            for (int index = 1; index < command.length; index++) {
                String[] pair = command[index].split("=", 2);
                words.put(pair[0], pair[1]);
            }
            if (command[0].equals("close")) {
                if (streams != null) {
                    streams.close();
                }
                Worker.say("closed", "");
                return;
            }
            streams = count(words);
        }
    }

    public static void main(String[] arguments) {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> Worker.readStdin(commands));
        reader.setDaemon(true);
        reader.start();
        try {
            Worker.say("ready", "");
            serve(commands);
        } catch (Exception error) {
            Worker.say("error", "\"text\": " + Worker.quoted(error.toString()));
            Runtime.getRuntime().halt(1);
        }
    }

    private WordCount() {
    }
}
