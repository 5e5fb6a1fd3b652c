"""The APIs that kohort supports, and their versions; all else derives from this.

The ranges are those that Apache Kafka 4.3 accepts. Modules of `protocol.apis` are
loaded, and codecs generated, on the first request that needs them.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from kohort.protocol.messages import Codec, codec


class Api:
    """One API key.

    Attributes:
        key: API key, int16.
        name: Kafka's name, for example ``JoinGroup``.
        oldest, newest: supported versions.
        flexible: first flexible version (KIP-482); None without one.
        advertised: lowest version that ApiVersions lists.
    """

    def __init__(
        self,
        key: int,
        name: str,
        module: str,
        oldest: int,
        newest: int,
        flexible: int | None,
        advertised: int | None = None,
    ) -> None:
        self.key = key
        self.name = name
        self.module_name = f"kohort.protocol.apis.{module}"
        self.oldest = oldest
        self.newest = newest
        self.flexible = flexible
        self.advertised = oldest if advertised is None else advertised
        self._module: ModuleType | None = None

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name}, {self.oldest}..{self.newest})"

    @property
    def module(self) -> ModuleType:
        """The module that declares this API's messages."""
        if self._module is None:
            self._module = importlib.import_module(self.module_name)
        return self._module

    @property
    def request_class(self) -> type:
        """The declaration of the request."""
        found: type = getattr(self.module, f"{self.name}Request")
        return found

    @property
    def response_class(self) -> type:
        """The declaration of the response."""
        found: type = getattr(self.module, f"{self.name}Response")
        return found

    def accepts(self, version: int) -> bool:
        """Returns whether requests of this version are answered."""
        return self.oldest <= version <= self.newest

    def is_flexible(self, version: int) -> bool:
        """Returns whether this version has compact lengths and tagged fields."""
        return self.flexible is not None and version >= self.flexible

    def response_header_version(self, version: int) -> int:
        """1 for flexible versions, else 0; always 0 for ApiVersions (KIP-511)."""
        return 1 if self.is_flexible(version) and self.key != API_VERSIONS else 0

    def request(self, version: int) -> Codec:
        """The codec of the request's body."""
        return codec(self.request_class, version, flexible=self.is_flexible(version))

    def response(self, version: int) -> Codec:
        """The codec of the response's body."""
        return codec(self.response_class, version, flexible=self.is_flexible(version))


API_VERSIONS = 18

# fmt: off
APIS = (
    # Kafka lists Produce v0 to v2 though it refuses them: librdkafka before 2.0
    # concludes from missing ones that it cannot produce to the broker.
    Api(0, "Produce", "k00_produce", 3, 13, 9, advertised=0),
    Api(1, "Fetch", "k01_fetch", 4, 18, 12),
    Api(2, "ListOffsets", "k02_list_offsets", 1, 11, 6),
    Api(3, "Metadata", "k03_metadata", 0, 13, 9),
    Api(8, "OffsetCommit", "k08_offset_commit", 2, 10, 8),
    Api(9, "OffsetFetch", "k09_offset_fetch", 1, 10, 6),
    Api(10, "FindCoordinator", "k10_find_coordinator", 0, 6, 3),
    Api(11, "JoinGroup", "k11_join_group", 0, 9, 6),
    Api(12, "Heartbeat", "k12_heartbeat", 0, 4, 4),
    Api(13, "LeaveGroup", "k13_leave_group", 0, 5, 4),
    Api(14, "SyncGroup", "k14_sync_group", 0, 5, 4),
    Api(15, "DescribeGroups", "k15_describe_groups", 0, 6, 5),
    Api(16, "ListGroups", "k16_list_groups", 0, 5, 3),
    Api(17, "SaslHandshake", "k17_sasl_handshake", 0, 1, None),
    Api(API_VERSIONS, "ApiVersions", "k18_api_versions", 0, 4, 3),
    Api(19, "CreateTopics", "k19_create_topics", 2, 7, 5),
    Api(20, "DeleteTopics", "k20_delete_topics", 1, 6, 4),
    Api(21, "DeleteRecords", "k21_delete_records", 0, 2, 2),
    Api(22, "InitProducerId", "k22_init_producer_id", 0, 5, 2),
    Api(23, "OffsetForLeaderEpoch", "k23_offset_for_leader_epoch", 2, 4, 4),
    Api(24, "AddPartitionsToTxn", "k24_add_partitions_to_txn", 0, 5, 3),
    Api(25, "AddOffsetsToTxn", "k25_add_offsets_to_txn", 0, 4, 3),
    Api(26, "EndTxn", "k26_end_txn", 0, 5, 3),
    Api(27, "WriteTxnMarkers", "k27_write_txn_markers", 1, 2, 1),
    Api(28, "TxnOffsetCommit", "k28_txn_offset_commit", 0, 5, 3),
    Api(29, "DescribeAcls", "k29_describe_acls", 1, 3, 2),
    Api(30, "CreateAcls", "k30_create_acls", 1, 3, 2),
    Api(31, "DeleteAcls", "k31_delete_acls", 1, 3, 2),
    Api(32, "DescribeConfigs", "k32_describe_configs", 1, 4, 4),
    Api(33, "AlterConfigs", "k33_alter_configs", 0, 2, 2),
    Api(34, "AlterReplicaLogDirs", "k34_alter_replica_log_dirs", 1, 2, 2),
    Api(35, "DescribeLogDirs", "k35_describe_log_dirs", 1, 5, 2),
    Api(36, "SaslAuthenticate", "k36_sasl_authenticate", 0, 2, 2),
    Api(37, "CreatePartitions", "k37_create_partitions", 0, 3, 2),
    Api(38, "CreateDelegationToken", "k38_create_delegation_token", 1, 3, 2),
    Api(39, "RenewDelegationToken", "k39_renew_delegation_token", 1, 2, 2),
    Api(40, "ExpireDelegationToken", "k40_expire_delegation_token", 1, 2, 2),
    Api(41, "DescribeDelegationToken", "k41_describe_delegation_token", 1, 3, 2),
    Api(42, "DeleteGroups", "k42_delete_groups", 0, 2, 2),
    Api(43, "ElectLeaders", "k43_elect_leaders", 0, 2, 2),
    Api(44, "IncrementalAlterConfigs", "k44_incremental_alter_configs", 0, 1, 1),
    Api(45, "AlterPartitionReassignments", "k45_alter_partition_reassignments",
        0, 1, 0),
    Api(46, "ListPartitionReassignments", "k46_list_partition_reassignments", 0, 0, 0),
    Api(47, "OffsetDelete", "k47_offset_delete", 0, 0, None),
    Api(48, "DescribeClientQuotas", "k48_describe_client_quotas", 0, 1, 1),
    Api(49, "AlterClientQuotas", "k49_alter_client_quotas", 0, 1, 1),
    Api(50, "DescribeUserScramCredentials", "k50_describe_user_scram_credentials",
        0, 0, 0),
    Api(51, "AlterUserScramCredentials", "k51_alter_user_scram_credentials", 0, 0, 0),
    Api(55, "DescribeQuorum", "k55_describe_quorum", 0, 2, 0),
    Api(57, "UpdateFeatures", "k57_update_features", 0, 2, 0),
    Api(60, "DescribeCluster", "k60_describe_cluster", 0, 2, 0),
    Api(61, "DescribeProducers", "k61_describe_producers", 0, 0, 0),
    Api(65, "DescribeTransactions", "k65_describe_transactions", 0, 0, 0),
    Api(66, "ListTransactions", "k66_list_transactions", 0, 2, 0),
    Api(68, "ConsumerGroupHeartbeat", "k68_consumer_group_heartbeat", 0, 1, 0),
    Api(69, "ConsumerGroupDescribe", "k69_consumer_group_describe", 0, 1, 0),
    Api(74, "ListConfigResources", "k74_list_config_resources", 0, 1, 0),
    Api(75, "DescribeTopicPartitions", "k75_describe_topic_partitions", 0, 0, 0),
    Api(76, "ShareGroupHeartbeat", "k76_share_group_heartbeat", 1, 1, 0),
    Api(88, "StreamsGroupHeartbeat", "k88_streams_group_heartbeat", 0, 0, 0),
)
# fmt: on

BY_KEY = {api.key: api for api in APIS}
BY_NAME = {api.name: api for api in APIS}
