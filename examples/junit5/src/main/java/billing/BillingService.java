package billing;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.GroupMaxSizeReachedException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Bills orders as a member of the group "billing". A group that is full (KIP-389) ends it. */
public final class BillingService {
    public static final int STOPPED = 0;
    public static final int GROUP_IS_FULL = 3;

    private final KafkaConsumer<String, String> consumer;
    private final Consumer<ConsumerRecord<String, String>> bill;

    public BillingService(String bootstrapServers, String clientId, Consumer<ConsumerRecord<String, String>> bill) {
        this.bill = bill;
        consumer = new KafkaConsumer<>(
                Map.of(
                        "bootstrap.servers", bootstrapServers,
                        "client.id", clientId,
                        "group.id", "billing",
                        "auto.offset.reset", "earliest",
                        "enable.auto.commit", false,
                        "heartbeat.interval.ms", 200),
                new StringDeserializer(),
                new StringDeserializer());
    }

    /** Runs until it is stopped; returns the exit code. */
    public int run() {
        try (consumer) {
            consumer.subscribe(List.of("orders"));
            while (true) {
                consumer.poll(Duration.ofMillis(500)).forEach(bill);
                commit();
            }
        } catch (WakeupException stopped) {
            return STOPPED;
        } catch (GroupMaxSizeReachedException full) {
            System.err.println("too many instances of billing run already: " + full.getMessage());
            return GROUP_IS_FULL;
        }
    }

    private void commit() {
        try {
            consumer.commitSync();
        } catch (RebalanceInProgressException | CommitFailedException rebalance) {
            // The next owner of the partitions gets the orders again.
        }
    }

    /** Ends {@link #run}, from another thread. */
    public void stop() {
        consumer.wakeup();
    }

    public static void main(String[] clientId) {
        BillingService service = new BillingService(System.getenv("KAFKA_BOOTSTRAP_SERVERS"), clientId[0], System.out::println);
        System.exit(service.run());
    }
}
