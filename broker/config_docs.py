"""Texts about the configuration keys: DescribeConfigs sends them, docs/ prints them.

A row is a key and a phrase. For keys in use the phrase says what the key does in
kohort. For the others it says what Kafka has the key for, and the text begins with
"No effect in kohort"; behind a ``|`` stands what kohort has in its place.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.config_keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    Key,
)

_BROKER = """
add.partitions.to.txn.retry.backoff.max.ms      the longest pause before a transaction's partition is verified again
add.partitions.to.txn.retry.backoff.ms          the first pause before a transaction's partition is verified again
advertised.listeners                            the addresses that clients are given | --advertise
alter.config.policy.class.name                  a class that may refuse changes of configuration
alter.log.dirs.replication.quota.window.num     how many samples the quota of moves between log directories looks back
alter.log.dirs.replication.quota.window.size.seconds how long one sample of the quota of moves between log directories is
authorizer.class.name                           the class that decides who may do what
auto.create.topics.enable                       whether a topic that a client asks for by name is created
auto.leader.rebalance.enable                    whether leadership goes back to the first replica of a partition on its own
background.threads                              threads for chores such as deleting files
broker.heartbeat.interval.ms                    how often a broker tells the controller that it is alive
broker.id                                       the older name of node.id
broker.rack                                     the rack or zone of a broker, for placing replicas and for reads nearby
broker.session.timeout.ms                       after how long without a heartbeat the controller takes a broker for dead
client.quota.callback.class                     a class that decides which quota a client falls under
compression.gzip.level                          the level of gzip where compression.type is gzip; -1 for zlib's own default
compression.lz4.level                           the level of lz4 where compression.type is lz4
compression.type                                the codec in which batches are kept: producer keeps the producer's; with any other value a batch of another codec is written anew
compression.zstd.level                          the level of zstd where compression.type is zstd
config.providers                                names of classes that look up values such as passwords elsewhere
connection.failed.authentication.delay.ms       how long a connection stays open after its authentication failed
connections.max.idle.ms                         a connection that says nothing for so long is closed; -1 for never
connections.max.reauth.ms                       after how long a SASL connection has to authenticate again
controlled.shutdown.enable                      whether a broker that stops first hands over its leaderships
controller.listener.names                       the listeners that controllers talk to one another on
controller.performance.always.log.threshold.ms  controller events that take longer are logged one by one
controller.performance.sample.period.ms         how often the controller logs its slowest events
controller.quorum.append.linger.ms              how long the metadata leader waits for more records before it writes
controller.quorum.auto.join.enable              whether a controller becomes a voter of the quorum on its own
controller.quorum.bootstrap.servers             where a node finds the quorum of controllers
controller.quorum.election.backoff.max.ms       the longest pause between two elections of a metadata leader
controller.quorum.election.timeout.ms           how long a candidate waits for votes
controller.quorum.fetch.max.bytes               the most metadata that one fetch of the quorum brings, in bytes
controller.quorum.fetch.snapshot.max.bytes      the most of a metadata snapshot that one fetch brings, in bytes
controller.quorum.fetch.timeout.ms              after how long without a successful fetch an election begins
controller.quorum.request.timeout.ms            how long a controller waits for an answer of another one
controller.quorum.retry.backoff.ms              the pause before a request to another controller is sent again
controller.quorum.voters                        ids and addresses of the controllers that vote
controller.quota.window.num                     how many samples the quota of changes of topics looks back
controller.quota.window.size.seconds            how long one sample of the quota of changes of topics is
controller.socket.timeout.ms                    how long a broker waits for the controller's answer
coordinator.first.use                           whether the first requests are refused, as a new Kafka does it: kafka for yes, ready for no (see docs/cluster.md#the-first-seconds)
coordinator.load.delay.ms                       how much longer than it takes a coordinator is loading when its partition of __consumer_offsets gets another leader, to see what clients do at COORDINATOR_LOAD_IN_PROGRESS
cordoned.log.dirs                               log directories that get no new partitions
create.topic.policy.class.name                  a class that may refuse topics
default.replication.factor                      the factor of topics that ask for the broker's default
delegation.token.expiry.check.interval.ms       how often delegation tokens that have expired are removed
delegation.token.expiry.time.ms                 how long a delegation token is valid until it is renewed
delegation.token.max.lifetime.ms                how long a delegation token can be renewed
delegation.token.secret.key                     the secret that delegation tokens are signed with
delete.records.purgatory.purge.interval.requests after how many DeleteRecords requests the finished ones among the waiting are forgotten
delete.topic.enable                             whether DeleteTopics deletes
early.start.listeners                           listeners that open before the broker has caught up with the metadata
events.topic.enable                             whether the topic __kohort_events exists from the start; by default, the first client that asks for it creates it (see docs/events.md)
fetch.max.bytes                                 the most that one Fetch is answered with, in bytes
fetch.purgatory.purge.interval.requests         after how many waiting fetches those that are done are forgotten
follower.fetch.last.tiered.offset.enable        whether a new follower begins behind what is in remote storage
follower.replication.throttled.rate             how fast throttled followers may copy, in bytes a second
group.consumer.assignment.interval.ms           the least time between two assignments of a consumer group (KIP-848)
group.consumer.assignor.offload.enable          nothing, in Kafka either: a setting of a later version
group.consumer.assignors                        the assignors of the new consumer groups (KIP-848), the default one first
group.consumer.heartbeat.interval.ms            how often members of consumer groups send heartbeats (KIP-848)
group.consumer.max.assignment.interval.ms       the most that a group can set consumer.assignment.interval.ms to
group.consumer.max.heartbeat.interval.ms        the most that a group can set consumer.heartbeat.interval.ms to
group.consumer.max.session.timeout.ms           the most that a group can set consumer.session.timeout.ms to
group.consumer.max.size                         the most members of a consumer group (KIP-848)
group.consumer.migration.policy                 whether classic groups become consumer groups (KIP-848), and back
group.consumer.min.assignment.interval.ms       the least that a group can set consumer.assignment.interval.ms to
group.consumer.min.heartbeat.interval.ms        the least that a group can set consumer.heartbeat.interval.ms to
group.consumer.min.session.timeout.ms           the least that a group can set consumer.session.timeout.ms to
group.consumer.regex.refresh.interval.ms        how often subscriptions by pattern are matched with the topics again
group.consumer.session.timeout.ms               after how long without a heartbeat a member of a consumer group is removed (KIP-848)
group.coordinator.append.linger.ms              how long a coordinator collects records before it writes them. Until then a leader's assignment does not count, and commits, heartbeats, departures and deletions wait. -1: for the rest of one turn of the event loop, so that requests that arrive together see it, as in Kafka; 0: not at all; above: to try what clients do in a longer window
group.coordinator.background.threads            threads of the coordinator for slow work such as matching patterns
group.coordinator.cached.buffer.max.bytes       the largest write buffer that the coordinator keeps for its next write
group.coordinator.rebalance.protocols           the kinds of groups that the broker has | classic groups only
group.coordinator.threads                       threads that handle the requests of groups
group.initial.rebalance.delay.ms                how long an empty group's first rebalance waits for more members (KIP-134); 0 makes tests fast
group.max.session.timeout.ms                    the longest session timeout that a member may ask for
group.max.size                                  the most members of a group (KIP-389)
group.min.session.timeout.ms                    the shortest session timeout that a member may ask for
group.share.assignment.interval.ms              the least time between two assignments of a share group (KIP-932)
group.share.assignor.offload.enable             nothing, in Kafka either: a setting of a later version
group.share.assignors                           the assignor of share groups
group.share.delivery.count.limit                how often a record is delivered to a share group before it is given up
group.share.heartbeat.interval.ms               how often members of share groups send heartbeats
group.share.initialize.retry.interval.ms        how long the first state of a share partition is waited for before it is asked for again
group.share.max.assignment.interval.ms          the most that a group can set share.assignment.interval.ms to
group.share.max.delivery.count.limit            the most that a group can set share.delivery.count.limit to
group.share.max.heartbeat.interval.ms           the most that a group can set share.heartbeat.interval.ms to
group.share.max.partition.max.record.locks      the most that a group can set share.partition.max.record.locks to
group.share.max.record.lock.duration.ms         the most that a group can set share.record.lock.duration.ms to
group.share.max.session.timeout.ms              the most that a group can set share.session.timeout.ms to
group.share.max.share.sessions                  how many members of share groups can fetch from a broker at once
group.share.max.size                            the most members of a share group
group.share.min.assignment.interval.ms          the least that a group can set share.assignment.interval.ms to
group.share.min.delivery.count.limit            the least that a group can set share.delivery.count.limit to
group.share.min.heartbeat.interval.ms           the least that a group can set share.heartbeat.interval.ms to
group.share.min.partition.max.record.locks      the least that a group can set share.partition.max.record.locks to
group.share.min.record.lock.duration.ms         the least that a group can set share.record.lock.duration.ms to
group.share.min.session.timeout.ms              the least that a group can set share.session.timeout.ms to
group.share.partition.max.record.locks          how many records of a partition a share group can hold at once
group.share.persister.class.name                the class that keeps the state of share groups
group.share.record.lock.duration.ms             how long a member of a share group can hold a record
group.share.session.timeout.ms                  after how long without a heartbeat a member of a share group is removed
group.streams.assignment.interval.ms            the least time between two assignments of a streams group (KIP-1071)
group.streams.assignor.offload.enable           nothing, in Kafka either: a setting of a later version
group.streams.heartbeat.interval.ms             how often members of streams groups send heartbeats
group.streams.initial.rebalance.delay.ms        how long the first rebalance of a streams group waits for more members
group.streams.max.assignment.interval.ms        the most that a group can set streams.assignment.interval.ms to
group.streams.max.heartbeat.interval.ms         the most that a group can set streams.heartbeat.interval.ms to
group.streams.max.session.timeout.ms            the most that a group can set streams.session.timeout.ms to
group.streams.max.size                          the most members of a streams group
group.streams.max.standby.replicas              the most that a group can set streams.num.standby.replicas to
group.streams.min.assignment.interval.ms        the least that a group can set streams.assignment.interval.ms to
group.streams.min.heartbeat.interval.ms         the least that a group can set streams.heartbeat.interval.ms to
group.streams.min.session.timeout.ms            the least that a group can set streams.session.timeout.ms to
group.streams.num.standby.replicas              how many standbys each task of a streams group has
group.streams.session.timeout.ms                after how long without a heartbeat a member of a streams group is removed
initial.broker.registration.timeout.ms          how long a broker that starts tries to register with the controller
inter.broker.listener.name                      the listener that brokers talk to one another on
internal.metadata.delete.delay.millis           how long old files of the metadata log are kept
internal.metadata.log.segment.bytes             the largest file of the metadata log, in bytes; for tests of Kafka
internal.metadata.max.batch.size.in.bytes       the largest batch of metadata, in bytes; for tests of Kafka
kafka.metrics.polling.interval.secs             how often reporters of the older metrics are called
kafka.metrics.reporters                         classes that report the older metrics
kohort.strictness                               whether requests that Kafka forgets stay without an answer: kafka for yes, helpful for an answer (see docs/configuration.md#kohortstrictness)
leader.imbalance.check.interval.seconds         how often partitions are looked for that their first replica does not lead
leader.replication.throttled.rate               how fast throttled leaders may be copied from, in bytes a second
listener.security.protocol.map                  the security protocol of each listener | PLAINTEXT only
listeners                                       the addresses that the broker listens on | --host and --port
log.cleaner.backoff.ms                          how long compaction rests after a round
log.cleaner.dedupe.buffer.size                  the memory of compaction for the keys of a log, in bytes
log.cleaner.delete.retention.ms                 how long compaction keeps tombstones
log.cleaner.enable                              whether compacted topics are compacted
log.cleaner.io.buffer.load.factor               how full the memory for keys may become before a round ends
log.cleaner.io.buffer.size                      the memory of compaction for reading and writing, in bytes
log.cleaner.io.max.bytes.per.second             how fast compaction may read and write
log.cleaner.max.compaction.lag.ms               the longest that a record may wait for compaction
log.cleaner.min.cleanable.ratio                 the share of a log that has to be new before it is compacted
log.cleaner.min.compaction.lag.ms               the shortest that a record is kept from compaction
log.cleaner.threads                             threads for compaction
log.cleanup.policy                              what happens to old records: delete, compact, or both
log.dir                                         the directory that DescribeLogDirs names where there is no --data-dir
log.dir.failure.timeout.ms                      how long a broker waits to tell the controller of a broken log directory before it stops
log.dirs                                        the directories of logs | --data-dir
log.flush.interval.messages                     after how many records a log file is flushed to the disk (fsync)
log.flush.interval.ms                           after how long a log file is flushed at the latest
log.flush.offset.checkpoint.interval.ms         how often checkpoints are written; what lies behind them is checked after a crash
log.flush.scheduler.interval.ms                 the default of log.flush.interval.ms
log.flush.start.offset.checkpoint.interval.ms   how often the first offsets of logs are written down
log.index.interval.bytes                        how many bytes of a log file have one entry in its index
log.index.size.max.bytes                        the largest index of a log file; a larger one rolls it
log.initial.task.delay.ms                       how long after the start retention and flushing begin
log.local.retention.bytes                       how much of a partition stays on the local disk when the rest is in remote storage
log.local.retention.ms                          how long records stay on the local disk when they are in remote storage
log.message.timestamp.after.max.ms              how far ahead of the broker's clock a record's timestamp may be
log.message.timestamp.before.max.ms             how far behind the broker's clock a record's timestamp may be
log.message.timestamp.type                      whose time records have: the producer's, or LogAppendTime for the broker's
log.preallocate                                 whether a new log file gets its full size at once
log.retention.bytes                             how much of a partition is kept, in bytes; -1 for everything
log.retention.check.interval.ms                 how often old records are dropped
log.retention.hours                             how long records are kept, in hours; log.retention.ms and log.retention.minutes go before it
log.retention.minutes                           how long records are kept, in minutes; log.retention.ms goes before it
log.retention.ms                                how long records are kept, in milliseconds; -1 for ever
log.roll.hours                                  after how long a new log file is begun, in hours; log.roll.ms goes before it
log.roll.jitter.hours                           the most that is taken off log.roll.hours at random; log.roll.jitter.ms goes before it
log.roll.jitter.ms                              the most that is taken off log.roll.ms at random
log.roll.ms                                     after how long a new log file is begun, in milliseconds
log.segment.bytes                               the largest log file, in bytes
log.segment.delete.delay.ms                     how long a deleted log file stays on the disk
max.connection.creation.rate                    how many connections a second are accepted
max.connections                                 how many connections are open at most
max.connections.per.ip                          how many connections one address may have
max.connections.per.ip.overrides                other limits for single addresses
max.incremental.fetch.session.cache.slots       how many fetch sessions are kept (KIP-227)
max.request.partition.size.limit                how many partitions one DescribeTopicPartitions is answered with at most
message.max.bytes                               the largest record batch, in bytes
metadata.log.dir                                the directory of the metadata log
metadata.log.max.record.bytes.between.snapshots after how many bytes of metadata a snapshot is made
metadata.log.max.snapshot.interval.ms           after how long a snapshot of the metadata is made
metadata.log.segment.bytes                      the largest file of the metadata log, in bytes
metadata.log.segment.ms                         after how long a new file of the metadata log is begun
metadata.max.idle.interval.ms                   how often the metadata leader writes a record when nothing changes
metadata.max.retention.bytes                    how much of the metadata log and its snapshots is kept, in bytes
metadata.max.retention.ms                       how long the metadata log and its snapshots are kept
metric.reporters                                classes that report metrics | an HTTP port with /metrics
metrics.num.samples                             how many samples a metric is made of
metrics.recording.level                         how detailed metrics are
metrics.sample.window.ms                        how long one sample of a metric is
min.insync.replicas                             how many replicas have to run for a Produce with acks=all, at most all replicas of the partition; else it gets NOT_ENOUGH_REPLICAS
node.id                                         the broker's id; Kafka has no default for it
num.io.threads                                  threads that handle requests
num.network.threads                             threads that read requests and write responses
num.partitions                                  the partitions of a topic that is created without saying how many
num.recovery.threads.per.data.dir               threads that load logs at the start, and flush them at the end
num.replica.alter.log.dirs.threads              threads that move partitions between log directories
num.replica.fetchers                            threads that copy from each other broker
offset.metadata.max.bytes                       the longest metadata of a committed offset
offsets.commit.timeout.ms                       how long a write to __consumer_offsets waits for the replicas
offsets.load.buffer.size                        how much of __consumer_offsets is read at once while groups are loaded
offsets.retention.check.interval.ms             how often old offsets are looked for
offsets.retention.minutes                       how long offsets are kept without a member that has them (KIP-211)
offsets.topic.compression.codec                 the codec of the records of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
offsets.topic.num.partitions                    the partitions of __consumer_offsets, and so the number of coordinators
offsets.topic.replication.factor                the replicas of __consumer_offsets; with fewer nodes, as many as there are
offsets.topic.segment.bytes                     the largest log file of __consumer_offsets, in bytes
principal.builder.class                         the class that makes a user's name of a connection
process.roles                                   whether the process is a broker, a controller, or both | always both
producer.id.expiration.check.interval.ms        how often silent producers are looked for
producer.id.expiration.ms                       how long an idempotent producer that is silent is remembered
producer.purgatory.purge.interval.requests      after how many waiting produce requests those that are done are forgotten
queued.max.request.bytes                        the memory of requests of more than 16 KB until they are handled, in bytes; -1 for 256 MB (see docs/limits.md)
queued.max.requests                             how many requests wait to be handled before no more are read
quota.window.num                                how many samples the quotas of clients look back
quota.window.size.seconds                       how long one sample of the quota of clients is
remote.fetch.max.wait.ms                        how long a fetch waits for remote storage
remote.list.offsets.request.timeout.ms          how long ListOffsets waits for remote storage
remote.log.index.file.cache.total.size.bytes    how much of the indexes in remote storage is kept on the local disk
remote.log.index.file.cache.ttl.ms              how long an index from remote storage is kept
remote.log.manager.copier.thread.pool.size      threads that copy log files to remote storage
remote.log.manager.copy.max.bytes.per.second    how fast log files are copied to remote storage
remote.log.manager.copy.quota.window.num        how many samples the quota of copies to remote storage looks back
remote.log.manager.copy.quota.window.size.seconds how long one sample of the quota of copies to remote storage is
remote.log.manager.expiration.thread.pool.size  threads that delete old log files in remote storage
remote.log.manager.fetch.max.bytes.per.second   how fast remote storage is read
remote.log.manager.fetch.quota.window.num       how many samples the quota of reads of remote storage looks back
remote.log.manager.fetch.quota.window.size.seconds how long one sample of the quota of reads of remote storage is
remote.log.manager.follower.thread.pool.size    threads that follow what leaders have in remote storage
remote.log.manager.task.interval.ms             how often copying to and deleting in remote storage is looked after
remote.log.manager.task.retry.backoff.max.ms    the longest pause after remote storage failed
remote.log.manager.task.retry.backoff.ms        the first pause after remote storage failed
remote.log.manager.task.retry.jitter            how much of the pause after remote storage failed is random
remote.log.manager.thread.pool.size             threads for remote storage, before each kind of work got its own
remote.log.metadata.custom.metadata.max.bytes   the most that a remote storage plug-in may note of a log file, in bytes
remote.log.metadata.manager.class.name          the class that keeps the metadata of remote storage
remote.log.metadata.manager.class.path          where the class for the metadata of remote storage is
remote.log.metadata.manager.impl.prefix         the beginning of the keys for the class that keeps the metadata of remote storage
remote.log.metadata.manager.listener.name       the listener that the class for the metadata of remote storage connects to
remote.log.reader.max.pending.tasks             how many reads of remote storage wait at most
remote.log.reader.threads                       threads that read remote storage
remote.log.storage.manager.class.name           the class that stores log files remotely
remote.log.storage.manager.class.path           where the class that stores log files remotely is
remote.log.storage.manager.impl.prefix          the beginning of the keys for the class that stores log files remotely
remote.log.storage.system.enable                whether topics can have remote storage
replica.alter.log.dirs.io.max.bytes.per.second  how fast partitions move between log directories
replica.fetch.backoff.ms                        the pause of a follower after an error
replica.fetch.max.bytes                         the most that a follower asks for of one partition, in bytes
replica.fetch.min.bytes                         the least that a follower waits for, in bytes
replica.fetch.response.max.bytes                the most that a follower asks for at once, in bytes
replica.fetch.wait.max.ms                       how long a follower's fetch waits for records
replica.high.watermark.checkpoint.interval.ms   how often high watermarks are written down
replica.lag.time.max.ms                         after how long a follower that lags is no more in sync
replica.selector.class                          the class that picks a replica for consumers to read
replica.socket.receive.buffer.bytes             the receive buffer of a follower's connection, in bytes
replica.socket.timeout.ms                       how long a follower waits for an answer
replication.quota.window.num                    how many samples the quotas of replication look back
replication.quota.window.size.seconds           how long one sample of the quota of replication is
request.timeout.ms                              how long a broker waits for an answer of another one
response.delay.ms                               how long each response waits (see docs/client-test-suites.md)
sasl.client.callback.handler.class              a class that answers for clients of SASL
sasl.enabled.mechanisms                         the SASL mechanisms that clients can log in with
sasl.jaas.config                                the login of a listener, in the format of JAAS
sasl.kerberos.kinit.cmd                         the command that renews a Kerberos ticket
sasl.kerberos.min.time.before.relogin           the least time between two renewals of a Kerberos ticket
sasl.kerberos.principal.to.local.rules          rules that make user names of Kerberos principals
sasl.kerberos.service.name                      the Kerberos name that brokers run under
sasl.kerberos.ticket.renew.jitter               how much of the time to the renewal of a Kerberos ticket is random
sasl.kerberos.ticket.renew.window.factor        how much of a Kerberos ticket's life passes before it is renewed
sasl.login.callback.handler.class               a class that answers for a SASL login
sasl.login.class                                the class of a SASL login
sasl.login.connect.timeout.ms                   how long connecting to the provider of logins may take
sasl.login.read.timeout.ms                      how long reading from the provider of logins may take
sasl.login.refresh.buffer.seconds               how long before its end a login is renewed at the latest
sasl.login.refresh.min.period.seconds           the least time between two renewals of a login
sasl.login.refresh.window.factor                how much of a login's life passes before it is renewed
sasl.login.refresh.window.jitter                how much of the time to a login's renewal is random
sasl.login.retry.backoff.max.ms                 the longest pause after the provider of logins failed
sasl.login.retry.backoff.ms                     the first pause after the provider of logins failed
sasl.mechanism.controller.protocol              the SASL mechanism that brokers and controllers use
sasl.mechanism.inter.broker.protocol            the SASL mechanism that brokers use with one another
sasl.oauthbearer.assertion.algorithm            the algorithm that assertions for OAuth are signed with
sasl.oauthbearer.assertion.claim.aud            the audience that assertions for OAuth name
sasl.oauthbearer.assertion.claim.exp.seconds    how long assertions for OAuth are valid
sasl.oauthbearer.assertion.claim.iss            the issuer that assertions for OAuth name
sasl.oauthbearer.assertion.claim.jti.include    whether assertions for OAuth have ids of their own
sasl.oauthbearer.assertion.claim.nbf.seconds    how long before now assertions for OAuth begin to be valid
sasl.oauthbearer.assertion.claim.sub            the subject that assertions for OAuth name
sasl.oauthbearer.assertion.file                 a file that has a whole assertion for OAuth
sasl.oauthbearer.assertion.private.key.file     a file that has the key for signing assertions for OAuth
sasl.oauthbearer.assertion.private.key.passphrase the passphrase of the key for signing assertions
sasl.oauthbearer.assertion.template.file        a file that assertions for OAuth begin with
sasl.oauthbearer.client.credentials.client.id   the id of the OAuth client
sasl.oauthbearer.client.credentials.client.secret the secret of the OAuth client
sasl.oauthbearer.clock.skew.seconds             how far the clock of the OAuth provider may be off
sasl.oauthbearer.expected.audience              audiences that a token may have
sasl.oauthbearer.expected.issuer                the issuer that a token has to have
sasl.oauthbearer.jwks.endpoint.refresh.ms       how long the OAuth provider's keys are kept
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms the longest pause after reading the OAuth provider's keys failed
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms the first pause after reading the OAuth provider's keys failed
sasl.oauthbearer.jwks.endpoint.url              where the OAuth provider has its keys
sasl.oauthbearer.jwt.retriever.class            the class that gets tokens
sasl.oauthbearer.jwt.validator.class            the class that checks tokens
sasl.oauthbearer.scope                          the scope that tokens are asked for with
sasl.oauthbearer.scope.claim.name               the name of the scope in a token
sasl.oauthbearer.sub.claim.name                 the name of the subject in a token
sasl.oauthbearer.token.endpoint.url             where the OAuth provider hands out tokens
sasl.server.callback.handler.class              a class that checks what clients of SASL send
sasl.server.max.receive.size                    the largest message of a client that logs in, in bytes
security.inter.broker.protocol                  the security protocol between brokers
security.providers                              classes that bring algorithms of security
server.max.startup.time.ms                      how long a start may take
share.coordinator.append.linger.ms              how long records of share groups wait for more before they are written
share.coordinator.cached.buffer.max.bytes       the largest write buffer that the share coordinator keeps for its next write
share.coordinator.cold.partition.snapshot.interval.ms after how long without a change the state of a share partition is written whole
share.coordinator.load.buffer.size              how much of the state of share groups is read at once
share.coordinator.snapshot.update.records.per.snapshot how many changes of a share partition come between two whole states
share.coordinator.state.topic.compression.codec the codec of the topic of share groups' state
share.coordinator.state.topic.min.isr           the min.insync.replicas of the topic of share groups' state
share.coordinator.state.topic.num.partitions    the partitions of the topic of share groups' state
share.coordinator.state.topic.prune.interval.ms how often records of share groups' state that are no more needed are deleted
share.coordinator.state.topic.replication.factor the replicas of the topic of share groups' state
share.coordinator.state.topic.segment.bytes     the largest log file of the topic of share groups' state, in bytes
share.coordinator.threads                       threads of the share coordinator
share.coordinator.write.timeout.ms              how long a write of the share coordinator waits for the replicas
share.fetch.purgatory.purge.interval.requests   after how many waiting share fetches those that are done are forgotten
socket.connection.setup.timeout.max.ms          the longest that a broker waits for a connection to another one
socket.connection.setup.timeout.ms              how long the first attempt to connect to another broker waits
socket.listen.backlog.size                      how many connections may wait to be accepted
socket.receive.buffer.bytes                     the receive buffer of a connection, in bytes
socket.request.max.bytes                        the largest request; a longer one closes its connection
socket.send.buffer.bytes                        the send buffer of a connection, in bytes
ssl.allow.dn.changes                            whether a new certificate may have another distinguished name
ssl.allow.san.changes                           whether a new certificate may have other alternative names
ssl.cipher.suites                               the ciphers of TLS that are allowed; all if empty
ssl.client.auth                                 whether clients have to show a certificate
ssl.enabled.protocols                           the versions of TLS that are allowed
ssl.endpoint.identification.algorithm           how a server's name is checked against its certificate
ssl.engine.factory.class                        a class that makes TLS engines
ssl.key.password                                the passphrase of the broker's private key
ssl.keymanager.algorithm                        the algorithm of Java's key manager
ssl.keystore.certificate.chain                  the certificates of the broker, as PEM
ssl.keystore.key                                the private key of the broker, as PEM
ssl.keystore.location                           the file of the key store
ssl.keystore.password                           the password of the key store
ssl.keystore.type                               the format of the key store
ssl.principal.mapping.rules                     rules that make user names of certificates
ssl.protocol                                    the version of TLS that connections begin with
ssl.provider                                    the provider of TLS in Java
ssl.secure.random.implementation                the random numbers of TLS
ssl.trustmanager.algorithm                      the algorithm of Java's trust manager
ssl.truststore.certificates                     the certificates that are trusted, as PEM
ssl.truststore.location                         the file of the trust store
ssl.truststore.password                         the password of the trust store
ssl.truststore.type                             the format of the trust store
telemetry.max.bytes                             the most that a client may send of its metrics at once, in bytes
transaction.abort.timed.out.transaction.cleanup.interval.ms how often transactions that take too long are aborted
transaction.max.timeout.ms                      the longest timeout that a transaction may ask for
transaction.partition.verification.enable       whether a partition is checked to be part of a transaction
transaction.remove.expired.transaction.cleanup.interval.ms how often transactional ids that have expired are removed
transaction.state.log.load.buffer.size          how much of the transactions' topic is read at once
transaction.state.log.min.isr                   the min.insync.replicas of the transactions' topic
transaction.state.log.num.partitions            the partitions of the transactions' topic
transaction.state.log.replication.factor        the replicas of the transactions' topic
transaction.state.log.segment.bytes             the largest log file of the transactions' topic, in bytes
transaction.two.phase.commit.enable             whether transactions can wait for another system's commit
transactional.id.expiration.ms                  how long a transactional id that is silent is remembered
unclean.leader.election.enable                  whether a replica that is not in sync may become leader
unclean.leader.election.interval.ms             how often partitions are looked for that need a leader that is not in sync
unstable.api.versions.enable                    whether versions of APIs are served that are not final
unstable.feature.versions.enable                whether versions of features are allowed that are not final
wire.error.numbering                            the number of "the group is full" on the wire (see docs/configuration.md)
"""

_TOPIC = """
cleanup.policy                                  what happens to old records: delete, compact, or both
compression.gzip.level                          the level of gzip where compression.type is gzip; -1 for zlib's own default
compression.lz4.level                           the level of lz4 where compression.type is lz4
compression.type                                the codec in which batches are kept: producer keeps the producer's; with any other value a batch of another codec is written anew
compression.zstd.level                          the level of zstd where compression.type is zstd
delete.retention.ms                             how long compaction keeps tombstones
file.delete.delay.ms                            how long a deleted log file stays on the disk
flush.messages                                  after how many records a log file is flushed to the disk (fsync)
flush.ms                                        after how long a log file is flushed at the latest
follower.replication.throttled.replicas         the replicas that copy at the throttled rate
index.interval.bytes                            how many bytes of a log file have one entry in its index
internal.segment.bytes                          the largest log file, in bytes; for tests of Kafka
leader.replication.throttled.replicas           the replicas that are copied from at the throttled rate
local.retention.bytes                           how much of a partition stays on the local disk when the rest is in remote storage
local.retention.ms                              how long records stay on the local disk when they are in remote storage
max.compaction.lag.ms                           the longest that a record may wait for compaction
max.message.bytes                               the largest record batch, in bytes
message.timestamp.after.max.ms                  how far ahead of the broker's clock a record's timestamp may be
message.timestamp.before.max.ms                 how far behind the broker's clock a record's timestamp may be
message.timestamp.type                          whose time records have: the producer's, or LogAppendTime for the broker's
min.cleanable.dirty.ratio                       the share of a log that has to be new before it is compacted
min.compaction.lag.ms                           the shortest that a record is kept from compaction
min.insync.replicas                             how many replicas have to run for a Produce with acks=all, at most all replicas of the partition; else it gets NOT_ENOUGH_REPLICAS
preallocate                                     whether a new log file gets its full size at once
remote.log.copy.disable                         whether nothing more is copied to remote storage
remote.log.delete.on.disable                    whether turning remote storage off deletes what is there
remote.storage.enable                           whether old log files go to remote storage
retention.bytes                                 how much of a partition is kept, in bytes; -1 for everything
retention.ms                                    how long records are kept; -1 for ever
segment.bytes                                   the largest log file, in bytes
segment.index.bytes                             the largest index of a log file; a larger one rolls it
segment.jitter.ms                               the most that is taken off segment.ms at random
segment.ms                                      after how long a new log file is begun
unclean.leader.election.enable                  whether a replica that is not in sync may become leader
"""

_GROUP = """
consumer.assignment.interval.ms                 the least time between two assignments of a consumer group (KIP-848)
consumer.heartbeat.interval.ms                  how often members of a consumer group send heartbeats (KIP-848)
consumer.session.timeout.ms                     after how long without a heartbeat a member of a consumer group is removed (KIP-848)
share.assignment.interval.ms                    the least time between two assignments of a share group (KIP-932)
share.auto.offset.reset                         where a share group begins to read
share.delivery.count.limit                      how often a record is delivered to a share group before it is given up
share.heartbeat.interval.ms                     how often members of a share group send heartbeats
share.isolation.level                           whether a share group sees records of transactions that are open or aborted
share.partition.max.record.locks                how many records of a partition a share group can hold at once
share.record.lock.duration.ms                   how long a member of a share group can hold a record
share.renew.acknowledge.enable                  whether a member of a share group can prolong its hold of a record
share.session.timeout.ms                        after how long without a heartbeat a member of a share group is removed
streams.assignment.interval.ms                  the least time between two assignments of a streams group (KIP-1071)
streams.heartbeat.interval.ms                   how often members of a streams group send heartbeats
streams.initial.rebalance.delay.ms              how long the first rebalance of a streams group waits for more members
streams.num.standby.replicas                    how many standbys each task of a streams group has
streams.session.timeout.ms                      after how long without a heartbeat a member of a streams group is removed
"""

_CLIENT_METRICS = """
interval.ms                                     how often the clients send their metrics (KIP-714)
match                                           the clients that a subscription is for, as field=pattern
metrics                                         beginnings of the names of the metrics to send; * for all
"""


def text_of(key: Key, phrase: str) -> str:
    """The text about a key, made of its phrase."""
    meaning, _, instead = phrase.partition(" | ")
    if key.used:
        return f"{meaning[:1].upper()}{meaning[1:]}."
    without = f", which has {instead}" if instead else ""
    return f"No effect in kohort{without}. In Kafka: {meaning}."


def _phrases(table: str) -> dict[str, str]:
    phrases = {}
    for row in table.strip().splitlines():
        name, phrase = row.split(maxsplit=1)
        phrases[name] = phrase
    return phrases


def _texts(keys: Mapping[str, Key], table: str) -> dict[str, str]:
    phrases = _phrases(table)
    return {name: text_of(key, phrases[name]) for name, key in keys.items()}


BROKER_DOCS = _texts(BROKER_KEYS, _BROKER)
"""Texts about the broker's keys."""

TOPIC_DOCS = _texts(TOPIC_KEYS, _TOPIC)
"""Texts about the keys of topics."""

GROUP_DOCS = _texts(GROUP_KEYS, _GROUP)
"""Texts about the keys of groups."""

CLIENT_METRICS_DOCS = _texts(CLIENT_METRICS_KEYS, _CLIENT_METRICS)
"""Texts about the keys of subscriptions to the metrics of clients."""
