import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A worker over an old kafka-clients: it only joins and reports its partitions; see lines.py. */
public final class OldWorker {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static synchronized void say(String event, String fields) {
        OUT.print("{\"event\": \"" + event + "\"" + fields + "}\n");
        OUT.flush();
    }

    private static KafkaConsumer<String, String> join(Map<String, String> words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words.get("bootstrap"));
        settings.put("group.id", words.get("group"));
        settings.put("client.id", words.get("client"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("session.timeout.ms", words.get("session"));
        settings.put("heartbeat.interval.ms", words.get("heartbeat"));
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(Collections.singletonList(words.get("topic")), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(java.util.Collection<TopicPartition> partitions) {
                List<Integer> numbers =
                        partitions.stream().map(TopicPartition::partition).sorted().collect(Collectors.toList());
                say("owns", ", \"why\": \"assigned\", \"generation\": null, \"partitions\": " + numbers);
            }

            @Override
            public void onPartitionsRevoked(java.util.Collection<TopicPartition> partitions) {
                say("owns", ", \"why\": \"revoked\", \"generation\": null, \"partitions\": []");
            }
        });
        return consumer;
    }

    private static void readStdin(BlockingQueue<String> commands) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(line);
            }
        } catch (java.io.IOException error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(3); // the scene is gone
    }

    private static void serve(BlockingQueue<String> commands) throws InterruptedException {
        KafkaConsumer<String, String> consumer = null;
        while (true) {
            if (consumer != null && commands.isEmpty()) {
                consumer.poll(Duration.ofMillis(100));
                continue;
            }
            String[] command = commands.take().split(" ");
            if (command[0].equals("join")) {
                Map<String, String> words = new HashMap<>();
                for (int index = 1; index < command.length; index++) {
                    String[] pair = command[index].split("=", 2);
                    words.put(pair[0], pair[1]);
                }
                consumer = join(words);
            } else if (command[0].equals("close") && consumer != null) {
                consumer.close();
                say("closed", "");
                return;
            } else {
                throw new IllegalArgumentException("no such command: " + command[0]);
            }
        }
    }

    public static void main(String[] arguments) {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> readStdin(commands));
        reader.setDaemon(true);
        reader.start();
        say("ready", "");
        try {
            serve(commands);
        } catch (Exception error) {
            String text = error.toString().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ");
            say("error", ", \"text\": \"" + text + "\"");
            Runtime.getRuntime().halt(1);
        }
    }

    private OldWorker() {
    }
}
