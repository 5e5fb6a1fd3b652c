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
        OUT.printf("%n]%n");
    }
}
