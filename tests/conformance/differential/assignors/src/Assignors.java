import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.HexFormat;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Plays groups with Kafka's own classes: reads a command, prints its result, both JSON in a line.
 * Between commands it has a cluster's topics and one group.
 */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, ConsumerGroupPartitionAssignor> assignors =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor());
    private Topics topics = new Topics(List.of());
    private ConsumerGroup group;

    public static void main(String[] arguments) throws Exception {
        Assignors player = new Assignors();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.append(JSON.writeValueAsString(player.play(JSON.readTree(line)))).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private Object play(JsonNode command) {
        return switch (command.get("do").asText()) {
            case "topics" -> setTopics(command);
            case "group" -> newGroup();
            case "leave" -> leave(command);
            default -> assign(command);
        };
    }

    /** Has new topics; returns the hashes of each, and of a group that subscribes to all. */
    private Object setTopics(JsonNode command) {
        List<Topic> all = new ArrayList<>();
        for (JsonNode topic : command.get("topics")) {
            List<List<String>> racks = new ArrayList<>();
            for (JsonNode partition : topic.get("racks")) {
                racks.add(strings(partition));
            }
            all.add(new Topic(id(topic.get("id").asText()), topic.get("name").asText(), racks));
        }
        topics = new Topics(all);
        Map<String, Long> hashes = new LinkedHashMap<>();
        for (Topic topic : all) {
            hashes.put(topic.name(), Utils.computeTopicHash(topic.name(), topics));
        }
        return Map.of("topics", hashes, "group", Utils.computeGroupHash(hashes));
    }

    private Object newGroup() {
        LogContext log = new LogContext();
        group = new ConsumerGroup(log, new SnapshotRegistry(log), "group");
        return true;
    }

    private Object leave(JsonNode command) {
        String memberId = command.get("member").asText();
        group.removeTargetAssignment(memberId);
        group.removeMember(memberId);
        return true;
    }

    /** A member joins, or changes; returns the target assignment, and the members with a record. */
    private Object assign(JsonNode command) {
        String memberId = command.get("member").asText();
        String instanceId = text(command.get("instance"));
        ConsumerGroupMember member = new ConsumerGroupMember.Builder(memberId)
            .setInstanceId(instanceId)
            .setRackId(text(command.get("rack")))
            .setSubscribedTopicNames(strings(command.get("topics")))
            .build();
        String replaced = group.staticMemberId(instanceId);
        SubscriptionType type = typeWith(member, replaced);
        var builder = new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder(
                "group", 1, assignors.get(command.get("assignor").asText()))
            .withTime(Time.SYSTEM)
            .withMembers(group.members())
            .withStaticMembers(group.staticMembers())
            .withSubscriptionType(type)
            .withTargetAssignment(group.targetAssignment())
            .withInvertedTargetAssignment(group.invertedTargetAssignment())
            .withMetadataImage(topics)
            .addOrUpdateMember(memberId, member);
        if (replaced != null && !replaced.equals(memberId)) {
            builder.removeMember(replaced);
        }
        var result = builder.build();
        if (replaced != null && !replaced.equals(memberId)) {
            group.removeTargetAssignment(replaced);
            group.removeMember(replaced);
        }
        group.updateMember(member);
        group.updateMember(member);
        Map<String, Object> records = new LinkedHashMap<>();
        for (CoordinatorRecord record : result.records()) {
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key) {
                var value = (ConsumerGroupTargetAssignmentMemberValue) record.value().message();
                group.updateTargetAssignment(key.memberId(), Assignment.fromRecord(value));
                Map<String, Object> partitions = new LinkedHashMap<>();
                value.topicPartitions().forEach(row -> partitions.put(hex(row.topicId()), row.partitions()));
                records.put(key.memberId(), partitions);
            }
        }
        Map<String, Object> all = new HashMap<>();
        result.targetAssignment().forEach((each, assigned) -> {
            Map<String, Collection<Integer>> partitions = new HashMap<>();
            assigned.partitions().forEach((topicId, numbers) -> partitions.put(hex(topicId), new ArrayList<>(numbers)));
            all.put(each, partitions);
        });
        return Map.of("assignment", all, "records", records, "order", new ArrayList<>(records.keySet()));
    }

    /** The type of the group after a member's change. */
    private SubscriptionType typeWith(ConsumerGroupMember member, String replaced) {
        Set<Set<String>> subscriptions = new HashSet<>(Set.of(member.subscribedTopicNames()));
        group.members().forEach((id, other) -> {
            if (!id.equals(member.memberId()) && !id.equals(replaced)) {
                subscriptions.add(other.subscribedTopicNames());
            }
        });
        return subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static List<String> strings(JsonNode array) {
        List<String> found = new ArrayList<>();
        array.forEach(each -> found.add(each.asText()));
        return found;
    }

    private static Uuid id(String hex) {
        long high = HexFormat.fromHexDigitsToLong(hex, 0, 16);
        return new Uuid(high, HexFormat.fromHexDigitsToLong(hex, 16, 32));
    }

    private static String hex(Uuid id) {
        HexFormat format = HexFormat.of();
        return format.toHexDigits(id.getMostSignificantBits()) + format.toHexDigits(id.getLeastSignificantBits());
    }

    private record Topic(Uuid id, String name, List<List<String>> racks)
        implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public int partitionCount() {
            return racks.size();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            return new ArrayList<>(racks.get(partition));
        }
    }

    private static final class Topics implements CoordinatorMetadataImage {
        private final Map<Uuid, TopicMetadata> byId = new HashMap<>();
        private final Map<String, TopicMetadata> byName = new HashMap<>();

        Topics(List<Topic> all) {
            for (Topic topic : all) {
                byId.put(topic.id(), topic);
                byName.put(topic.name(), topic);
            }
        }

        @Override
        public Set<Uuid> topicIds() {
            return byId.keySet();
        }

        @Override
        public Set<String> topicNames() {
            return byName.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(byName.get(name));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid topicId) {
            return Optional.ofNullable(byId.get(topicId));
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            return CoordinatorMetadataDelta.EMPTY;
        }

        @Override
        public long version() {
            return 1;
        }

        @Override
        public boolean isEmpty() {
            return byId.isEmpty();
        }
    }
}
