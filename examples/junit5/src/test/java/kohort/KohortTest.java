package kohort;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import billing.BillingService;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Each verb of the extension, with one member of a group. */
class KohortTest {
    private static final String MEMBER = "billing-1";

    @RegisterExtension
    static final Kohort kohort = new Kohort().nodes(2).set("num.partitions", 4);

    private Kohort.Group billing;
    private BillingService service;
    private CompletableFuture<Integer> runs;

    @BeforeEach
    void aMember() {
        billing = kohort.group("billing");
        service = new BillingService(kohort.bootstrapServers(), MEMBER, order -> {});
        runs = CompletableFuture.supplyAsync(service::run);
        billing.until(is -> is.members(1).assigned());
    }

    @AfterEach
    void stops() {
        service.stop();
        runs.join();
        // A consumer that is looking for its coordinator does not leave.
        billing.describe().members().forEach(left -> billing.kick(left.memberId()));
    }

    @Test
    void views() {
        Kohort.Member member = billing.describe().members().get(0);
        assertEquals(MEMBER, member.clientId());
        assertEquals(Map.of("orders", List.of(0, 1, 2, 3)), member.assignment());
        billing.until(is -> is.committed("orders", 3, 0));
        assertEquals(4, billing.offsets().size());
        assertTrue(billing.why().contains("billing-1 was the first to join"), billing.why());
    }

    @Test
    void theMemberIsReplaced() {
        Kohort.Description before = billing.describe();
        billing.kick(MEMBER, "by a test");
        Kohort.Description kicked = again(before);
        assertNotEquals(before.members().get(0).memberId(), kicked.members().get(0).memberId());
        billing.expire(MEMBER);
        again(kicked);
        assertTrue(billing.why().contains("by a test"), billing.why());
    }

    @Test
    void theMemberIsMuted() {
        assertEquals(true, billing.mute(MEMBER).members().get(0).json().get("is_muted"));
        assertEquals(false, billing.unmute(MEMBER).members().get(0).json().get("is_muted"));
    }

    @Test
    void theGroupIsHeld() {
        Kohort.Description before = billing.describe();
        assertEquals("PreparingRebalance", billing.hold().json().get("held"));
        assertEquals("PreparingRebalance", billing.rebalance("by a test").state());
        billing.release();
        Kohort.Description released = again(before);
        billing.hold("CompletingRebalance");
        billing.rebalance();
        billing.until(is -> is.state("CompletingRebalance"));
        billing.release();
        again(released);
        assertEquals(1L, billing.limit(1).json().get("max_size"));
        assertEquals(null, billing.unlimit().json().get("max_size"));
    }

    @Test
    void theCoordinatorMoves() {
        int first = billing.describe().coordinator();
        int second = billing.move().coordinator();
        assertNotEquals(first, second);
        assertEquals(first, billing.move(first).coordinator());
        kohort.node(first).stop();
        assertEquals(second, billing.describe().coordinator());
        kohort.node(first).start();
        kohort.node(first).restart();
        billing.stable(1);
    }

    @Test
    void faultsStrike() {
        Kohort.Description before = billing.describe();
        Kohort.Fault fault = kohort.faults()
                .fail("SyncGroup", "REBALANCE_IN_PROGRESS", Map.of("group", "billing", "once", true));
        kohort.faults().delay("JoinGroup", Duration.ofMillis(1), Map.of("client_id", MEMBER));
        billing.rebalance();
        again(before);
        assertEquals(1, fault.strikes());
        fault.remove();
        assertEquals(404, assertThrows(Kohort.KohortException.class, fault::strikes).status());
        kohort.faults().clear();
        assertEquals(List.of(), kohort.get("/v1/faults").get("faults"));
    }

    @Test
    void timePasses() {
        Kohort.Description before = billing.describe();
        kohort.clock().advance(Duration.ofMinutes(5));
        assertEquals(before.generation(), billing.describe().generation());
        kohort.clock().advance(Duration.ofSeconds(46), false); // its session is 45 s
        again(before);
    }

    @Test
    void aTransactionIsHeldFencedAndMoved() {
        Kohort.Transaction transaction = kohort.transaction("orders-1");
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", kohort.bootstrapServers(), "transactional.id", "orders-1");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "one"));
            producer.flush();
            transaction.until("Ongoing");
            assertEquals(1, ((List<?>) transaction.describe().get("partitions")).size());
            transaction.hold();
            producer.commitTransaction();
            assertEquals("PrepareCommit", transaction.until("PrepareCommit").get("held"));
            Object coordinator = transaction.describe().get("coordinator");
            assertNotEquals(coordinator, transaction.move().get("coordinator"));
            transaction.release();
            transaction.until("CompleteCommit");
            assertEquals(409, assertThrows(Kohort.KohortException.class, transaction::expire).status());
            transaction.fence();
            assertThrows(KafkaException.class, () -> {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("orders", "two"));
                producer.commitTransaction();
            });
        }
    }

    @Test
    void whatCannotBeDoneSaysSo() {
        String refused = assertThrows(Kohort.KohortException.class, () -> billing.kick("ben")).getMessage();
        assertTrue(refused.contains(MEMBER), refused);
        String story = assertThrows(
                Kohort.ConditionTimeout.class,
                () -> billing.until(is -> is.members(7).within(Duration.ofMillis(50)))).getMessage();
        assertTrue(story.contains("Generation "), story);
    }

    @Test
    void aFailureHasTheStory() {
        AssertionError failure = new AssertionError("expected");
        assertThrows(AssertionError.class, () -> kohort.handleTestExecutionException(null, failure));
        String story = failure.getSuppressed()[0].toString();
        assertTrue(story.startsWith("group billing: "), story);
    }

    @Test
    @DisabledIfEnvironmentVariable(named = "KOHORT_HTTP", matches = ".+", disabledReason = "starts no broker")
    void aBrokerThatDoesNotStartSaysWhy() {
        Kohort broken = new Kohort().set("no.such.setting", 1);
        String why = assertThrows(IllegalStateException.class, () -> broken.beforeEach(null)).getMessage();
        assertTrue(why.contains("no.such.setting"), why);
    }

    /** Waits until the group is Stable in a later generation. */
    private Kohort.Description again(Kohort.Description before) {
        Kohort.Description after =
                billing.until(is -> is.state("Stable").members(1).generation(before.generation() + 1));
        assertFalse(runs.isDone());
        return after;
    }
}
