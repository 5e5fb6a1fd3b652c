import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.*;

/** Prints group records of every version, as Apache Kafka writes them; see README.md. */
class GroupRecords {
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    static String separator = "[";

    static void print(String name, int version, ByteBuffer data, Object json) {
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        OUT.printf("%s%n [\"%s\", %d, \"%s\",%n  %s]", separator, name, version, HexFormat.of().formatHex(bytes), json);
        separator = ",";
    }

    public static void main(String[] arguments) {
        for (short version = 0; version <= 4; version++) {
            OffsetCommitValue offset = new OffsetCommitValue()
                .setOffset(1L << 40).setMetadata("größe \uD83D\uDE00").setCommitTimestamp(1_700_000_000_123L);
            if (version >= 3) offset.setLeaderEpoch(7);
            if (version == 1) offset.setExpireTimestamp(1_800_000_000_456L);
            if (version >= 4) offset.setTopicId(new Uuid(0x0102030405060708L, -2));
            print("OffsetCommitValue", version, MessageUtil.toVersionPrefixedByteBuffer(version, offset),
                OffsetCommitValueJsonConverter.write(offset, version));

            GroupMetadataValue.MemberMetadata one = new GroupMetadataValue.MemberMetadata()
                .setMemberId("member-1").setClientId("client").setClientHost("/127.0.0.1").setSessionTimeout(10_000)
                .setSubscription(new byte[] {0, 1, 2}).setAssignment(new byte[] {});
            GroupMetadataValue.MemberMetadata two = new GroupMetadataValue.MemberMetadata()
                .setMemberId("member-2").setClientId("").setClientHost("").setSessionTimeout(45_000)
                .setSubscription(new byte[200]).setAssignment(new byte[] {-1});
            if (version >= 1) two.setRebalanceTimeout(300_000);
            if (version >= 3) two.setGroupInstanceId("instance-2");
            GroupMetadataValue group = new GroupMetadataValue()
                .setProtocolType("consumer").setGeneration(3).setProtocol("range").setLeader("member-1").setMembers(List.of(one, two));
            if (version >= 2) group.setCurrentStateTimestamp(1_700_000_000_123L);
            print("GroupMetadataValue", version, MessageUtil.toVersionPrefixedByteBuffer(version, group),
                GroupMetadataValueJsonConverter.write(group, version));
            GroupMetadataValue empty = new GroupMetadataValue()
                .setProtocolType("").setGeneration(0).setProtocol(null).setLeader(null).setMembers(List.of());
            print("GroupMetadataValue", version, MessageUtil.toVersionPrefixedByteBuffer(version, empty),
                GroupMetadataValueJsonConverter.write(empty, version));
        }
        short none = 0;
        OffsetCommitKey offset = new OffsetCommitKey().setGroup("größe").setTopic("t").setPartition(70_000);
        print("OffsetCommitKey", 1, MessageUtil.toCoordinatorTypePrefixedByteBuffer(offset),
            OffsetCommitKeyJsonConverter.write(offset, none));
        GroupMetadataKey group = new GroupMetadataKey().setGroup("größe");
        print("GroupMetadataKey", 2, MessageUtil.toCoordinatorTypePrefixedByteBuffer(group),
            GroupMetadataKeyJsonConverter.write(group, none));
        ShareGroupMetadataKey share = new ShareGroupMetadataKey().setGroupId("shared");
        print("ShareGroupMetadataKey", 11, MessageUtil.toCoordinatorTypePrefixedByteBuffer(share),
            ShareGroupMetadataKeyJsonConverter.write(share, none));
        ConsumerGroupMetadataKey consumers = new ConsumerGroupMetadataKey().setGroupId("größe");
        print("ConsumerGroupMetadataKey", 3, MessageUtil.toCoordinatorTypePrefixedByteBuffer(consumers),
            ConsumerGroupMetadataKeyJsonConverter.write(consumers, none));
        ConsumerGroupPartitionMetadataKey partitions = new ConsumerGroupPartitionMetadataKey().setGroupId("größe");
        print("ConsumerGroupPartitionMetadataKey", 4, MessageUtil.toCoordinatorTypePrefixedByteBuffer(partitions),
            ConsumerGroupPartitionMetadataKeyJsonConverter.write(partitions, none));
        ConsumerGroupMemberMetadataKey member = new ConsumerGroupMemberMetadataKey().setGroupId("größe").setMemberId("m");
        print("ConsumerGroupMemberMetadataKey", 5, MessageUtil.toCoordinatorTypePrefixedByteBuffer(member),
            ConsumerGroupMemberMetadataKeyJsonConverter.write(member, none));
        ConsumerGroupTargetAssignmentMetadataKey target = new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("größe");
        print("ConsumerGroupTargetAssignmentMetadataKey", 6, MessageUtil.toCoordinatorTypePrefixedByteBuffer(target),
            ConsumerGroupTargetAssignmentMetadataKeyJsonConverter.write(target, none));
        ConsumerGroupTargetAssignmentMemberKey targetMember =
            new ConsumerGroupTargetAssignmentMemberKey().setGroupId("größe").setMemberId("m");
        print("ConsumerGroupTargetAssignmentMemberKey", 7, MessageUtil.toCoordinatorTypePrefixedByteBuffer(targetMember),
            ConsumerGroupTargetAssignmentMemberKeyJsonConverter.write(targetMember, none));
        ConsumerGroupCurrentMemberAssignmentKey current =
            new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("größe").setMemberId("m");
        print("ConsumerGroupCurrentMemberAssignmentKey", 8, MessageUtil.toCoordinatorTypePrefixedByteBuffer(current),
            ConsumerGroupCurrentMemberAssignmentKeyJsonConverter.write(current, none));
        ConsumerGroupRegularExpressionKey regex =
            new ConsumerGroupRegularExpressionKey().setGroupId("größe").setRegularExpression("a.*");
        print("ConsumerGroupRegularExpressionKey", 16, MessageUtil.toCoordinatorTypePrefixedByteBuffer(regex),
            ConsumerGroupRegularExpressionKeyJsonConverter.write(regex, none));

        for (ConsumerGroupMetadataValue value : List.of(
                new ConsumerGroupMetadataValue().setEpoch(7),
                new ConsumerGroupMetadataValue().setEpoch(8).setMetadataHash(-1234567890123456789L)))
            print("ConsumerGroupMetadataValue", 0, MessageUtil.toVersionPrefixedByteBuffer(none, value),
                ConsumerGroupMetadataValueJsonConverter.write(value, none));
        for (ConsumerGroupMemberMetadataValue value : List.of(
                new ConsumerGroupMemberMetadataValue().setClientId("client").setClientHost("/127.0.0.1")
                    .setSubscribedTopicNames(List.of("größe", "t")).setRebalanceTimeoutMs(300_000)
                    .setInstanceId(null).setRackId(null).setSubscribedTopicRegex(null).setServerAssignor(null)
                    .setClassicMemberMetadata(null),
                new ConsumerGroupMemberMetadataValue(),
                new ConsumerGroupMemberMetadataValue().setInstanceId("i").setRackId("r").setClientId("").setClientHost("")
                    .setSubscribedTopicNames(List.of()).setSubscribedTopicRegex("a.*").setRebalanceTimeoutMs(45_000).setServerAssignor("range")
                    .setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata().setSessionTimeoutMs(10_000)
                        .setSupportedProtocols(List.of(
                            new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("range").setMetadata(new byte[] {0, 1, -1}),
                            new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("sticky").setMetadata(new byte[200]))))))
            print("ConsumerGroupMemberMetadataValue", 0, MessageUtil.toVersionPrefixedByteBuffer(none, value),
                ConsumerGroupMemberMetadataValueJsonConverter.write(value, none));
        for (ConsumerGroupTargetAssignmentMetadataValue value : List.of(
                new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(7),
                new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(8).setAssignmentTimestamp(1_700_000_000_123L)))
            print("ConsumerGroupTargetAssignmentMetadataValue", 0, MessageUtil.toVersionPrefixedByteBuffer(none, value),
                ConsumerGroupTargetAssignmentMetadataValueJsonConverter.write(value, none));
        Uuid id = new Uuid(0x0102030405060708L, -2);
        for (ConsumerGroupTargetAssignmentMemberValue value : List.of(
                new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of()),
                new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(
                    new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(id).setPartitions(List.of(0, 70_000))))))
            print("ConsumerGroupTargetAssignmentMemberValue", 0, MessageUtil.toVersionPrefixedByteBuffer(none, value),
                ConsumerGroupTargetAssignmentMemberValueJsonConverter.write(value, none));
        for (ConsumerGroupCurrentMemberAssignmentValue value : List.of(
                new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(7).setPreviousMemberEpoch(6).setState((byte) 1)
                    .setAssignedPartitions(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
                        .setTopicId(id).setPartitions(List.of(0, 3)).setAssignmentEpochs(List.of(5, 7))))
                    .setPartitionsPendingRevocation(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
                        .setTopicId(id).setPartitions(List.of(1)).setAssignmentEpochs(List.of(4)))),
                new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(-2).setPreviousMemberEpoch(7).setState((byte) 0)
                    .setAssignedPartitions(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
                        .setTopicId(id).setPartitions(List.of(2))))
                    .setPartitionsPendingRevocation(List.of())))
            print("ConsumerGroupCurrentMemberAssignmentValue", 0, MessageUtil.toVersionPrefixedByteBuffer(none, value),
                ConsumerGroupCurrentMemberAssignmentValueJsonConverter.write(value, none));
        ConsumerGroupRegularExpressionValue topics = new ConsumerGroupRegularExpressionValue()
            .setTopics(List.of("a", "größe")).setVersion(1L << 40).setTimestamp(1_700_000_000_123L);
        print("ConsumerGroupRegularExpressionValue", 0, MessageUtil.toVersionPrefixedByteBuffer(none, topics),
            ConsumerGroupRegularExpressionValueJsonConverter.write(topics, none));
        OUT.printf("%n]%n");
    }
}
