package billing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import kohort.Kohort;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class BillingServiceTest {
    @RegisterExtension
    static final Kohort kohort = new Kohort();

    private final List<BillingService> services = new ArrayList<>();

    @Test
    void aServiceExitsOnAFullGroup() throws Exception {
        Kohort.Group billing = kohort.group("billing");
        CompletableFuture<Integer> first = run("billing-1");
        billing.stable(1);

        billing.limit(1);
        CompletableFuture<Integer> second = run("billing-2");

        assertEquals(BillingService.GROUP_IS_FULL, second.get(10, TimeUnit.SECONDS));
        billing.stable(1);
        assertFalse(first.isDone());
    }

    private CompletableFuture<Integer> run(String clientId) {
        BillingService service = new BillingService(kohort.bootstrapServers(), clientId, order -> {});
        services.add(service);
        return CompletableFuture.supplyAsync(service::run);
    }

    @AfterEach
    void stopServices() {
        services.forEach(BillingService::stop);
    }
}
