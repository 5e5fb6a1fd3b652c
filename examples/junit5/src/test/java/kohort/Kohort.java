package kohort;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.LifecycleMethodExecutionExceptionHandler;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;

/**
 * A Kafka broker for tests of consumer groups, as a JUnit 5 extension: copy this file into your tests.
 * It needs Java 11, JUnit's API and kohort, installed as its README says, and nothing else.
 *
 * <pre>{@code
 * @RegisterExtension
 * static final Kohort kohort = new Kohort().nodes(3).set("group.max.size", 4);
 *
 * @Test
 * void aMemberIsReplaced() {
 *     // ... start consumers on kohort.bootstrapServers(), in the group "billing"
 *     Kohort.Group billing = kohort.group("billing");
 *     billing.stable(2);
 *     billing.kick("billing-1");
 *     billing.until(is -> is.state("Stable").members(2).rebalances(3));
 * }
 * }</pre>
 *
 * <p>A static field is one broker for the class, any other field one for each test. It starts {@code kohort serve} and
 * stops it; if this process is killed, the broker ends too. KOHORT_COMMAND in the environment is the command, split at
 * spaces, if it is not {@code kohort}. With KOHORT_HTTP and KAFKA_BOOTSTRAP_SERVERS, as in {@code kohort run -- mvn
 * test}, the tests use that broker and start none; its settings are those of {@code kohort run}.
 *
 * <p>After each test the faults are removed, and its groups and transactions released. When a test fails, the story of each group that it asked for, in the
 * sentences of {@code kohort why}, is a suppressed exception of its failure.
 */
public final class Kohort
        implements BeforeAllCallback, BeforeEachCallback, AfterTestExecutionCallback, AfterEachCallback,
                AfterAllCallback, TestExecutionExceptionHandler, LifecycleMethodExecutionExceptionHandler {
    private static final Duration START = Duration.ofSeconds(30);
    private static final Duration STOP = Duration.ofSeconds(10);
    private static final Duration ANSWER = Duration.ofSeconds(60);
    private static final int TAIL_LINES = 50;
    private static final Pattern READY = Pattern.compile("kohort accepts connections on (\\S+) and (\\S+) \\(pid \\d+\\)");

    private final Map<String, String> config = new LinkedHashMap<>();
    private final List<String> options = new ArrayList<>();
    private final Set<String> groups = Collections.synchronizedSet(new LinkedHashSet<>());
    private final Set<String> transactions = Collections.synchronizedSet(new LinkedHashSet<>());
    // Loopback is never behind a proxy.
    private final HttpClient client = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .proxy(HttpClient.Builder.NO_PROXY)
            .build();
    private int users;
    private Process process;
    private String bootstrapServers;
    private String http;

    /** One node, no initial rebalance delay, and sessions as short as the consumers like. */
    public Kohort() {
        set("group.initial.rebalance.delay.ms", 0);
        set("group.min.session.timeout.ms", 1);
    }

    /** Nodes of the cluster. */
    public Kohort nodes(int count) {
        return option("--nodes", String.valueOf(count));
    }

    /** Sets one of Kafka's broker settings. */
    public Kohort set(String key, Object value) {
        config.put(key, String.valueOf(value));
        return this;
    }

    /** The broker's time stands still but for {@code clock().advance()}. */
    public Kohort manualClock() {
        return option("--clock", "manual");
    }

    /** Any further options of {@code kohort serve}. */
    public Kohort option(String... words) {
        options.addAll(List.of(words));
        return this;
    }

    /** For {@code bootstrap.servers}. */
    public String bootstrapServers() {
        return bootstrapServers;
    }

    /** The URL of the broker's HTTP port. */
    public String url() {
        return http;
    }

    /** A consumer group, which need not exist yet. */
    public Group group(String id) {
        groups.add(id);
        return new Group(id);
    }

    /** A transactional id, which need not exist yet. */
    public Transaction transaction(String id) {
        transactions.add(id);
        return new Transaction(id);
    }

    /** A node of the cluster; the first is 1. */
    public Node node(int id) {
        return new Node(id);
    }

    /** Rules by which the broker misbehaves. */
    public Faults faults() {
        return new Faults();
    }

    /** The broker's clock. */
    public Clock clock() {
        return new Clock();
    }

    /** A resource of the broker's HTTP port, as Java's types for JSON: {@code get("/v1/cluster")}. */
    public Map<String, Object> get(String path) {
        return ask("GET", path, null, ANSWER);
    }

    /** Changes something over HTTP: {@code post("/v1/requests/recording", Map.of("on", true))}. */
    public Map<String, Object> post(String path, Map<String, ?> body) {
        return ask("POST", path, body, ANSWER);
    }

    /** Deletes something over HTTP. */
    public Map<String, Object> delete(String path) {
        return ask("DELETE", path, null, ANSWER);
    }

    /** Verbs and views of a consumer group. A member is named by member id, group.instance.id or client.id. */
    public final class Group {
        private final String id;
        private final String path;

        private Group(String id) {
            this.id = id;
            this.path = "/v1/groups/" + quoted(id);
        }

        /** Removes a member; it learns so from its next request, and may join again. */
        public Description kick(String member) {
            return verb("kick", Map.of("member", member));
        }

        /** Removes a member; the reason is in the group's story. */
        public Description kick(String member, String reason) {
            return verb("kick", Map.of("member", member, "reason", reason));
        }

        /** Ends a member's session now, whatever its session.timeout.ms is. */
        public Description expire(String member) {
            return verb("expire", Map.of("member", member));
        }

        /** Nothing that a member sends counts as a sign of life any more. */
        public Description mute(String member) {
            return verb("mute", Map.of("member", member));
        }

        /** The opposite of {@link #mute}. */
        public Description unmute(String member) {
            return verb("unmute", Map.of("member", member));
        }

        /** Starts a rebalance. */
        public Description rebalance() {
            return verb("rebalance", Map.of());
        }

        /** Starts a rebalance; the reason is in the group's story. */
        public Description rebalance(String reason) {
            return verb("rebalance", Map.of("reason", reason));
        }

        /** Holds the group in the state of the rebalance under way, else as soon as it is in PreparingRebalance. */
        public Description hold() {
            return verb("hold", Map.of());
        }

        /** Holds the group in PreparingRebalance or CompletingRebalance: now, or as soon as it is in that state. */
        public Description hold(String state) {
            return verb("hold", Map.of("state", state));
        }

        /** The opposite of {@link #hold}. */
        public Description release() {
            return verb("release", Map.of());
        }

        /** Makes the next running node the group's coordinator. */
        public Description move() {
            return verb("move", Map.of());
        }

        /** Makes a node the group's coordinator. */
        public Description move(int node) {
            return verb("move", Map.of("node", node));
        }

        /** As group.max.size, for this group (KIP-389). */
        public Description limit(int maxSize) {
            return verb("limit", Map.of("max_size", maxSize));
        }

        /** The group's size is limited by the broker's settings only. */
        public Description unlimit() {
            return verb("limit", Collections.singletonMap("max_size", null));
        }

        /** The group as it is. */
        public Description describe() {
            return new Description(get(path));
        }

        /** Committed offset, end and lag of each partition: maps with topic, partition, committed, end, lag. */
        public List<Map<String, Object>> offsets() {
            return rows(get(path + "/offsets"), "offsets");
        }

        /**
         * What became of the records that the group was sent, once each partition that moved was fetched: a map with
         * words, again, again_certain, again_possible, skipped, went_back, uncommitted.
         */
        public Map<String, Object> delivery() {
            return get(path + "/delivery");
        }

        /**
         * Waits for all of some conditions: {@code until(is -> is.state("Stable").members(2))}.
         *
         * @throws ConditionTimeout with the group's story
         */
        public Description until(UnaryOperator<Conditions> conditions) {
            Conditions wanted = conditions.apply(new Conditions());
            String query = path + "/until?" + String.join("&", wanted.query);
            return new Description(ask("GET", query, null, wanted.timeout.plus(ANSWER)));
        }

        /** Waits until the group is Stable with this number of members. */
        public Description stable(int members) {
            return until(is -> is.state("Stable").members(members));
        }

        /** Waits until every record of the group's topics is committed. */
        public Description caughtUp() {
            return until(is -> is.lag(0));
        }

        /** Why the group rebalanced, in the sentences of {@code kohort why}. */
        public String why() {
            return (String) get("/why.json?group=" + quoted(id)).get("text");
        }

        private Description verb(String verb, Map<String, ?> body) {
            return new Description(post(path + "/" + verb, body));
        }
    }

    /** Conditions to wait for. */
    public static final class Conditions {
        private final List<String> query = new ArrayList<>();
        private Duration timeout = Duration.ofSeconds(10);

        private Conditions() {
            within(timeout);
        }

        /** The name of the group's state: Empty, PreparingRebalance, CompletingRebalance, Stable or Dead. */
        public Conditions state(String name) {
            return with("state", name);
        }

        /** The number of members. */
        public Conditions members(int count) {
            return with("members", count);
        }

        /** At least this generation. */
        public Conditions generation(int number) {
            return with("generation", number);
        }

        /** At least this many rebalances have ended. */
        public Conditions rebalances(int count) {
            return with("rebalances", count);
        }

        /** The group is Stable, and each member has partitions. */
        public Conditions assigned() {
            return with("assigned", true);
        }

        /** At least this offset is committed. */
        public Conditions committed(String topic, int partition, long offset) {
            return with("topic", topic).with("partition", partition).with("offset", offset);
        }

        /** At most this many records are not committed. */
        public Conditions lag(long records) {
            return with("lag", records);
        }

        /** The longest wait; 10 seconds by default. */
        public Conditions within(Duration longest) {
            timeout = longest;
            return with("timeout", longest.toMillis() / 1000.0);
        }

        private Conditions with(String name, Object value) {
            query.removeIf(each -> each.startsWith(name + "="));
            query.add(name + "=" + quoted(String.valueOf(value)));
            return this;
        }
    }

    /** A group at a moment. */
    public static final class Description {
        private final Map<String, Object> json;

        private Description(Map<String, Object> json) {
            this.json = json;
        }

        public String state() {
            return (String) json.get("state");
        }

        public int generation() {
            return ((Number) json.get("generation")).intValue();
        }

        /** The node that coordinates the group. */
        public int coordinator() {
            return ((Number) json.get("coordinator")).intValue();
        }

        public List<Member> members() {
            List<Member> members = new ArrayList<>();
            rows(json, "members").forEach(row -> members.add(new Member(row)));
            return members;
        }

        /** Everything, as Java's types for JSON. */
        public Map<String, Object> json() {
            return json;
        }

        @Override
        public String toString() {
            return Json.write(json);
        }
    }

    /** A member of a group at a moment. */
    public static final class Member {
        private final Map<String, Object> json;

        private Member(Map<String, Object> json) {
            this.json = json;
        }

        public String memberId() {
            return (String) json.get("member_id");
        }

        /** The group.instance.id of a static member, else null. */
        public String instanceId() {
            return (String) json.get("instance_id");
        }

        public String clientId() {
            return (String) json.get("client_id");
        }

        /** Partitions by topic. */
        public Map<String, List<Integer>> assignment() {
            Map<String, List<Integer>> assignment = new LinkedHashMap<>();
            ((Map<?, ?>) json.get("assignment")).forEach((topic, partitions) -> {
                List<Integer> numbers = new ArrayList<>();
                ((List<?>) partitions).forEach(each -> numbers.add(((Number) each).intValue()));
                assignment.put((String) topic, numbers);
            });
            return assignment;
        }

        /** Everything, as Java's types for JSON. */
        public Map<String, Object> json() {
            return json;
        }

        @Override
        public String toString() {
            return Json.write(json);
        }
    }

    /** Verbs and views of a transactional.id. They return its row as Java's types for JSON: state, producer_epoch, ... */
    public final class Transaction {
        private final String path;

        private Transaction(String id) {
            path = "/v1/transactions/" + quoted(id);
        }

        /** Fences the producer: raises the epoch, and aborts an open transaction. */
        public Map<String, Object> fence() {
            return post(path + "/fence", Map.of());
        }

        /** Aborts the open transaction, as transaction.timeout.ms does. */
        public Map<String, Object> expire() {
            return post(path + "/expire", Map.of());
        }

        /** Holds the next transaction in PrepareCommit, before its markers are written. */
        public Map<String, Object> hold() {
            return hold("PrepareCommit");
        }

        /** Holds the next transaction in PrepareCommit or PrepareAbort, before its markers are written. */
        public Map<String, Object> hold(String state) {
            return post(path + "/hold", Map.of("state", state));
        }

        /** The opposite of {@link #hold}. */
        public Map<String, Object> release() {
            return post(path + "/release", Map.of());
        }

        /** Makes the next running node the coordinator. */
        public Map<String, Object> move() {
            return post(path + "/move", Map.of());
        }

        /** Makes a node the coordinator. */
        public Map<String, Object> move(int node) {
            return post(path + "/move", Map.of("node", node));
        }

        /** The id as it is, with the partitions and groups of its transaction. */
        public Map<String, Object> describe() {
            return get(path);
        }

        /** Waits until the id is in a state, with Kafka's name, as in "Ongoing"; at most 10 seconds. */
        public Map<String, Object> until(String state) {
            return get(path + "/until?state=" + quoted(state));
        }
    }

    /** Verbs of a node. */
    public final class Node {
        private final int id;

        private Node(int id) {
            this.id = id;
        }

        /** Stops it; others take over its partitions and groups. */
        public void stop() {
            post("/v1/nodes/" + id + "/stop", Map.of());
        }

        /** Starts it again, on its port. */
        public void start() {
            post("/v1/nodes/" + id + "/start", Map.of());
        }

        /** Stops it and starts it again. */
        public void restart() {
            post("/v1/nodes/" + id + "/restart", Map.of());
        }
    }

    /** Rules by which the broker misbehaves; kohort's page on faults has all keys of a rule. */
    public final class Faults {
        /** Adds a rule: {@code add(Map.of("api", "Fetch", "once", true, "disconnect", "before"))}. */
        public Fault add(Map<String, ?> rule) {
            return new Fault(((Number) post("/v1/faults", rule).get("id")).intValue());
        }

        /** An API answers with an error: {@code fail("OffsetCommit", "NOT_COORDINATOR", Map.of("times", 2))}. */
        public Fault fail(String api, String error, Map<String, ?> when) {
            return rule(api, "error", error, when);
        }

        /** An API answers later: {@code delay("JoinGroup", Duration.ofSeconds(2), Map.of("client_id", "billing-1"))}. */
        public Fault delay(String api, Duration by, Map<String, ?> when) {
            return rule(api, "delay_ms", by.toMillis(), when);
        }

        /** Removes all rules. */
        public void clear() {
            delete("/v1/faults");
        }

        private Fault rule(String api, String effect, Object value, Map<String, ?> when) {
            Map<String, Object> rule = new HashMap<>(when);
            rule.put("api", api);
            rule.put(effect, value);
            return add(rule);
        }
    }

    /** A rule. */
    public final class Fault {
        private final String path;

        private Fault(int id) {
            path = "/v1/faults/" + id;
        }

        /** How often it has struck. */
        public int strikes() {
            return ((Number) get(path).get("strikes")).intValue();
        }

        /** Removes it. */
        public void remove() {
            delete(path);
        }
    }

    /** The broker's clock. */
    public final class Clock {
        /** Fires each timer that is due by then, in order. Members with a connection count as heard from. */
        public void advance(Duration by) {
            advance(by, true);
        }

        /** Without credit for heartbeats, the sessions of members end that send none meanwhile. */
        public void advance(Duration by, boolean creditHeartbeats) {
            double seconds = by.toMillis() / 1000.0;
            post("/v1/clock/advance", Map.of("seconds", seconds, "credit_heartbeats", creditHeartbeats));
        }
    }

    /** The broker refused a request, and says why in a line. */
    public static final class KohortException extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final int status;

        private KohortException(int status, String message) {
            super(message);
            this.status = status;
        }

        /** HTTP's: 400 for an invalid request, 404 for something missing, 409 for something impossible as things are. */
        public int status() {
            return status;
        }
    }

    /** A condition did not come true in time; the message has the group's story. */
    public static final class ConditionTimeout extends AssertionError {
        private static final long serialVersionUID = 1;

        private ConditionTimeout(String message) {
            super(message);
        }
    }

    /** The stories of a failed test's groups. */
    public static final class Story extends RuntimeException {
        private static final long serialVersionUID = 1;

        private Story(String story) {
            super(story, null, false, false);
        }

        @Override
        public String toString() {
            return getMessage();
        }
    }

    // The life of the broker. A static field gets the callbacks of its class, of nested ones, and of each test; any other
    // field those of each test.

    @Override
    public synchronized void beforeAll(ExtensionContext context) {
        enter();
    }

    @Override
    public synchronized void beforeEach(ExtensionContext context) {
        enter();
        groups.clear();
        transactions.clear();
    }

    /** Before the test's own {@code @AfterEach}: a consumer that is held, or slowed down, would not close. */
    @Override
    public void afterTestExecution(ExtensionContext context) {
        faults().clear();
        List.copyOf(groups).forEach(id -> unlessRefused(group(id)::release));
        List.copyOf(transactions).forEach(id -> unlessRefused(transaction(id)::release));
    }

    private static void unlessRefused(Runnable release) {
        try {
            release.run();
        } catch (KohortException notHeld) {
            // as it should be
        }
    }

    @Override
    public synchronized void afterEach(ExtensionContext context) {
        leave();
    }

    @Override
    public synchronized void afterAll(ExtensionContext context) {
        leave();
    }

    private void enter() {
        if (users == 0) {
            start();
        }
        users++; // not if it did not start
    }

    private void leave() {
        users--;
        if (users == 0 && process != null) {
            stop();
        }
    }

    private void start() {
        String running = System.getenv("KOHORT_HTTP");
        String servers = System.getenv("KAFKA_BOOTSTRAP_SERVERS");
        if (running != null && servers != null) {
            http = running;
            bootstrapServers = servers;
            return;
        }
        List<String> command = new ArrayList<>(List.of(System.getenv().getOrDefault("KOHORT_COMMAND", "kohort").split(" +")));
        command.addAll(List.of("serve", "--port", "0", "--http", "0", "--until-stdin-closes", "--log-level", "warning"));
        config.forEach((key, value) -> command.addAll(List.of("--set", key + "=" + value)));
        command.addAll(options);
        try {
            process = new ProcessBuilder(command).redirectErrorStream(true).start();
        } catch (IOException error) {
            throw new IllegalStateException(
                    "cannot run kohort: install it as its README says, or set KOHORT_COMMAND", error);
        }
        BufferedReader output =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        CompletableFuture<Matcher> ready = new CompletableFuture<>();
        Thread reader = new Thread(() -> read(output, ready), "kohort");
        reader.setDaemon(true);
        reader.start();
        try {
            Matcher line = ready.get(START.toMillis(), TimeUnit.MILLISECONDS);
            bootstrapServers = line.group(1);
            http = line.group(2);
        } catch (ExecutionException error) {
            throw new IllegalStateException(error.getCause().getMessage());
        } catch (TimeoutException error) {
            stop();
            throw new IllegalStateException("kohort did not start within " + START);
        } catch (InterruptedException error) {
            stop();
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    /** Reads the broker's output to its end: a full pipe would stop it. */
    private static void read(BufferedReader output, CompletableFuture<Matcher> ready) {
        Deque<String> tail = new ArrayDeque<>();
        try (output) {
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                Matcher matcher = READY.matcher(line);
                if (matcher.matches()) {
                    ready.complete(matcher);
                }
                tail.add(line);
                if (tail.size() > TAIL_LINES) {
                    tail.remove();
                }
            }
        } catch (IOException error) {
            tail.add(error.toString());
        }
        ready.completeExceptionally(new IOException("kohort did not start:\n" + String.join("\n", tail)));
    }

    /** Closes the broker's stdin, which ends it. */
    private void stop() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(STOP.toMillis(), TimeUnit.MILLISECONDS)) {
                process.destroyForcibly();
            }
        } catch (IOException error) {
            process.destroyForcibly();
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        process = null;
    }

    @Override
    public void handleTestExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        throw withStories(failure);
    }

    @Override
    public void handleBeforeEachMethodExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        throw withStories(failure);
    }

    @Override
    public void handleAfterEachMethodExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        throw withStories(failure);
    }

    private Throwable withStories(Throwable failure) {
        for (String id : List.copyOf(groups)) {
            try {
                failure.addSuppressed(new Story(group(id).why()));
            } catch (RuntimeException error) {
                failure.addSuppressed(error);
            }
        }
        return failure;
    }

    // HTTP

    private Map<String, Object> ask(String method, String path, Map<String, ?> body, Duration timeout) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(http + path)).timeout(timeout);
        String token = System.getenv("KOHORT_HTTP_TOKEN");
        if (token != null) {
            request.header("Authorization", "Bearer " + token);
        }
        request.header("Content-Type", "application/json");
        request.method(method, body == null
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofString(Json.write(body)));
        HttpResponse<String> response;
        try {
            response = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException error) {
            throw new IllegalStateException(method + " " + http + path + ": " + error, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
        if (response.statusCode() < 300) {
            return response.body().isBlank() ? Map.of() : Json.read(response.body());
        }
        String error = String.valueOf(Json.read(response.body()).get("error"));
        if (response.statusCode() == 504) {
            throw new ConditionTimeout(error);
        }
        throw new KohortException(response.statusCode(), error);
    }

    private static String quoted(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> rows(Map<String, Object> json, String key) {
        return (List<Map<String, Object>>) json.get(key);
    }

    /** JSON, whose types are Map, List, String, Long, Double, Boolean and null. */
    private static final class Json {
        private static final Pattern NUMBER = Pattern.compile("-?\\d+(\\.\\d+)?([eE][-+]?\\d+)?");
        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        @SuppressWarnings("unchecked")
        static Map<String, Object> read(String text) {
            return (Map<String, Object>) new Json(text).value();
        }

        static String write(Object value) {
            StringBuilder out = new StringBuilder();
            if (value instanceof Map) {
                ((Map<?, ?>) value).forEach((key, each) ->
                        out.append(out.length() > 0 ? ", " : "").append(write(key)).append(": ").append(write(each)));
                return "{" + out + "}";
            }
            if (value instanceof List) {
                ((List<?>) value).forEach(each -> out.append(out.length() > 0 ? ", " : "").append(write(each)));
                return "[" + out + "]";
            }
            if (!(value instanceof CharSequence)) {
                return String.valueOf(value);
            }
            for (char each : value.toString().toCharArray()) {
                if (each < ' ') {
                    out.append(String.format("\\u%04x", (int) each));
                } else {
                    out.append(each == '"' || each == '\\' ? "\\" : "").append(each);
                }
            }
            return "\"" + out + "\"";
        }

        private Object value() {
            switch (peek()) {
                case '{':
                    Map<String, Object> map = new LinkedHashMap<>();
                    for (at++; more('}'); ) {
                        String key = string();
                        expect(":");
                        map.put(key, value());
                    }
                    return map;
                case '[':
                    List<Object> list = new ArrayList<>();
                    for (at++; more(']'); ) {
                        list.add(value());
                    }
                    return list;
                case '"':
                    return string();
                case 't':
                    return expect("true");
                case 'f':
                    return !expect("false");
                case 'n':
                    expect("null");
                    return null;
                default:
                    return number();
            }
        }

        /** Whether a list or a map goes on; passes its comma or its end. */
        private boolean more(char end) {
            char next = peek();
            if (next == ',' || next == end) {
                at++;
            }
            return next != end;
        }

        private Number number() {
            Matcher number = NUMBER.matcher(text).region(at, text.length());
            if (!number.lookingAt()) {
                throw new IllegalArgumentException("no JSON at " + at + ": " + text);
            }
            at = number.end();
            if (number.group(1) == null && number.group(2) == null) {
                return Long.valueOf(number.group());
            }
            return Double.valueOf(number.group());
        }

        private String string() {
            expect("\"");
            StringBuilder out = new StringBuilder();
            for (char each = text.charAt(at++); each != '"'; each = text.charAt(at++)) {
                if (each != '\\') {
                    out.append(each);
                    continue;
                }
                char escape = text.charAt(at++);
                int known = "bfnrt".indexOf(escape);
                if (escape == 'u') {
                    out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                } else {
                    out.append(known < 0 ? escape : "\b\f\n\r\t".charAt(known));
                }
            }
            return out.toString();
        }

        private boolean expect(String word) {
            peek();
            if (!text.startsWith(word, at)) {
                throw new IllegalArgumentException("no " + word + " at " + at + ": " + text);
            }
            at += word.length();
            return true;
        }

        private char peek() {
            while (Character.isWhitespace(text.charAt(at))) {
                at++;
            }
            return text.charAt(at);
        }
    }
}
