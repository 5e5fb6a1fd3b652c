"""Documentation of the configuration keys, for DescribeConfigs and docs/.

A row is a key and a phrase. For keys in use the phrase describes the effect in kohort.
For the others it describes the effect in Kafka, and the text begins with "No effect in
kohort"; kohort's replacement, if there is one, follows a ``|``.
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
add.partitions.to.txn.retry.backoff.max.ms      time for which Produce v12 waits for the markers of the producer's last transaction
add.partitions.to.txn.retry.backoff.ms          pause after which Produce v12 asks the transaction coordinator again
advertised.listeners                            addresses that clients are given | --advertise
alter.config.policy.class.name                  class that may reject changes of configuration
alter.log.dirs.replication.quota.window.num     number of samples of the quota of moves between log directories
alter.log.dirs.replication.quota.window.size.seconds length of one sample of the quota of moves between log directories
api.versions                                    version of Apache Kafka whose APIs, API versions and features clients see (see docs/reference/configuration.md#apiversions)
authorizer.class.name                           class that authorizes requests
auto.create.topics.enable                       whether to create missing topics that a client requests by name
auto.leader.rebalance.enable                    whether the preferred replica becomes leader again automatically
background.threads                              number of threads for background tasks such as deleting files
broker.heartbeat.interval.ms                    interval of heartbeats from brokers to the controller
broker.id                                       old name of node.id
broker.rack                                     rack or zone of the broker, for placing replicas and for reading from the nearest one
broker.session.timeout.ms                       time without a heartbeat after which the controller fences a broker
client.quota.callback.class                     class that decides which quota applies to a client
compression.gzip.level                          gzip level if compression.type is gzip; -1: zlib's default
compression.lz4.level                           lz4 level if compression.type is lz4
compression.type                                codec of stored batches: producer keeps the producer's; otherwise batches of another codec are recompressed
compression.zstd.level                          zstd level if compression.type is zstd
config.providers                                names of classes that look up values such as passwords elsewhere
connection.failed.authentication.delay.ms       delay before a connection is closed after its authentication failed
connections.max.idle.ms                         time without a request after which a connection is closed; -1: never
connections.max.reauth.ms                       time after which a SASL connection has to authenticate again
controlled.shutdown.enable                      whether a broker hands over its leaderships before it stops
controller.listener.names                       listeners that controllers use among themselves
controller.performance.always.log.threshold.ms  controller events that take longer than this are logged individually
controller.performance.sample.period.ms         interval at which the controller logs its slowest events
controller.quorum.append.linger.ms              time that the metadata leader waits for more records before it writes
controller.quorum.auto.join.enable              whether a controller becomes a voter of the quorum automatically
controller.quorum.bootstrap.servers             addresses at which a node finds the quorum of controllers
controller.quorum.election.backoff.max.ms       maximum pause between two elections of a metadata leader
controller.quorum.election.timeout.ms           time that a candidate waits for votes
controller.quorum.fetch.max.bytes               maximum metadata in one fetch of the quorum, in bytes
controller.quorum.fetch.snapshot.max.bytes      maximum part of a metadata snapshot in one fetch, in bytes
controller.quorum.fetch.timeout.ms              time without a successful fetch after which an election begins
controller.quorum.request.timeout.ms            time that a controller waits for a response from another one
controller.quorum.retry.backoff.ms              pause before a request to another controller is retried
controller.quorum.voters                        ids and addresses of the voting controllers
controller.quota.window.num                     number of samples of the quota of topic changes
controller.quota.window.size.seconds            length of one sample of the quota of topic changes
controller.socket.timeout.ms                    time that a broker waits for a response from the controller
coordinator.first.use                           first requests about groups to a new broker: refused as in Apache Kafka (kafka), or served (ready) (see docs/reference/cluster.md#the-first-seconds)
coordinator.load.delay.ms                       extra loading time of a coordinator whose partition of __consumer_offsets or __transaction_state gets another leader, for testing how clients handle COORDINATOR_LOAD_IN_PROGRESS
cordoned.log.dirs                               log directories that get no new partitions
create.topic.policy.class.name                  class that may reject new topics
default.replication.factor                      replication factor of topics that request the broker's default
delegation.token.expiry.check.interval.ms       interval at which expired delegation tokens are removed
delegation.token.expiry.time.ms                 time for which a delegation token is valid unless it is renewed
delegation.token.max.lifetime.ms                maximum lifetime of a delegation token, with renewals
delegation.token.secret.key                     secret that signs delegation tokens
delete.records.purgatory.purge.interval.requests number of DeleteRecords requests after which finished waiting ones are purged
delete.topic.enable                             whether DeleteTopics is allowed
early.start.listeners                           listeners that open before the broker has caught up with the metadata
events.topic.enable                             whether the topic __kohort_events exists from the start; by default, the first client that requests it creates it (see docs/reference/events.md)
fetch.max.bytes                                 maximum size of a Fetch response, in bytes
fetch.purgatory.purge.interval.requests         number of waiting fetches after which finished ones are purged
follower.fetch.last.tiered.offset.enable        whether a new follower starts after the offsets in remote storage
follower.replication.throttled.rate             rate limit of throttled followers, in bytes per second
group.consumer.assignment.interval.ms           minimum time between two assignments of a consumer group (KIP-848)
group.consumer.assignor.offload.enable          no effect either: a setting of a later version
group.consumer.assignors                        assignors of consumer groups (KIP-848), the default one first
group.consumer.heartbeat.interval.ms            heartbeat interval of members of consumer groups (KIP-848)
group.consumer.max.assignment.interval.ms       maximum value of consumer.assignment.interval.ms
group.consumer.max.heartbeat.interval.ms        maximum value of consumer.heartbeat.interval.ms
group.consumer.max.session.timeout.ms           maximum value of consumer.session.timeout.ms
group.consumer.max.size                         maximum number of members of a consumer group (KIP-848)
group.consumer.migration.policy                 whether classic groups with members can become consumer groups (KIP-848), and back
group.consumer.min.assignment.interval.ms       minimum value of consumer.assignment.interval.ms
group.consumer.min.heartbeat.interval.ms        minimum value of consumer.heartbeat.interval.ms
group.consumer.min.session.timeout.ms           minimum value of consumer.session.timeout.ms
group.consumer.regex.refresh.interval.ms        interval at which subscriptions by pattern are matched with the topics again
group.consumer.session.timeout.ms               time without a heartbeat after which a member of a consumer group is removed (KIP-848)
group.coordinator.append.linger.ms              time that a coordinator collects records before it writes them. Until then a leader's assignment does not take effect, and commits, heartbeats, leaves and deletions wait. -1: for the rest of one turn of the event loop, so that requests that arrive together are handled as in Kafka; 0: no waiting; above 0: for testing clients with a longer wait
group.coordinator.background.threads            number of coordinator threads for slow work such as matching patterns
group.coordinator.cached.buffer.max.bytes       largest write buffer that the coordinator keeps for its next write
group.coordinator.rebalance.protocols           enabled group protocols: without consumer, heartbeats of consumer groups (KIP-848) get UNSUPPORTED_VERSION; kohort has no share and streams groups
group.coordinator.threads                       number of threads that handle the requests of groups
group.initial.rebalance.delay.ms                time that an empty group's first rebalance waits for more members (KIP-134); 0 makes tests fast
group.max.session.timeout.ms                    maximum session timeout of members
group.max.size                                  maximum number of members of a group (KIP-389)
group.min.session.timeout.ms                    minimum session timeout of members
group.share.assignment.interval.ms              minimum time between two assignments of a share group (KIP-932)
group.share.assignor.offload.enable             no effect either: a setting of a later version
group.share.assignors                           assignor of share groups
group.share.delivery.count.limit                maximum number of deliveries of a record to a share group
group.share.heartbeat.interval.ms               heartbeat interval of members of share groups
group.share.initialize.retry.interval.ms        time after which the initial state of a share partition is requested again
group.share.max.assignment.interval.ms          maximum value of share.assignment.interval.ms
group.share.max.delivery.count.limit            maximum value of share.delivery.count.limit
group.share.max.heartbeat.interval.ms           maximum value of share.heartbeat.interval.ms
group.share.max.partition.max.record.locks      maximum value of share.partition.max.record.locks
group.share.max.record.lock.duration.ms         maximum value of share.record.lock.duration.ms
group.share.max.session.timeout.ms              maximum value of share.session.timeout.ms
group.share.max.share.sessions                  maximum number of share sessions of a broker
group.share.max.size                            maximum number of members of a share group
group.share.min.assignment.interval.ms          minimum value of share.assignment.interval.ms
group.share.min.delivery.count.limit            minimum value of share.delivery.count.limit
group.share.min.heartbeat.interval.ms           minimum value of share.heartbeat.interval.ms
group.share.min.partition.max.record.locks      minimum value of share.partition.max.record.locks
group.share.min.record.lock.duration.ms         minimum value of share.record.lock.duration.ms
group.share.min.session.timeout.ms              minimum value of share.session.timeout.ms
group.share.partition.max.record.locks          maximum number of locked records of a partition in a share group
group.share.persister.class.name                class that stores the state of share groups
group.share.record.lock.duration.ms             time for which a member of a share group can lock a record
group.share.session.timeout.ms                  time without a heartbeat after which a member of a share group is removed
group.streams.assignment.interval.ms            minimum time between two assignments of a streams group (KIP-1071)
group.streams.assignor.offload.enable           no effect either: a setting of a later version
group.streams.heartbeat.interval.ms             heartbeat interval of members of streams groups
group.streams.initial.rebalance.delay.ms        time that the first rebalance of a streams group waits for more members
group.streams.max.assignment.interval.ms        maximum value of streams.assignment.interval.ms
group.streams.max.heartbeat.interval.ms         maximum value of streams.heartbeat.interval.ms
group.streams.max.session.timeout.ms            maximum value of streams.session.timeout.ms
group.streams.max.size                          maximum number of members of a streams group
group.streams.max.standby.replicas              maximum value of streams.num.standby.replicas
group.streams.min.assignment.interval.ms        minimum value of streams.assignment.interval.ms
group.streams.min.heartbeat.interval.ms         minimum value of streams.heartbeat.interval.ms
group.streams.min.session.timeout.ms            minimum value of streams.session.timeout.ms
group.streams.num.standby.replicas              number of standby replicas of each task of a streams group
group.streams.session.timeout.ms                time without a heartbeat after which a member of a streams group is removed
initial.broker.registration.timeout.ms          time that a starting broker tries to register with the controller
inter.broker.listener.name                      listener that brokers use among themselves
internal.metadata.delete.delay.millis           time before old files of the metadata log are deleted
internal.metadata.log.segment.bytes             maximum size of a metadata log file, in bytes; for tests of Kafka
internal.metadata.max.batch.size.in.bytes       maximum size of a metadata batch, in bytes; for tests of Kafka
kafka.metrics.polling.interval.secs             interval at which reporters of the older metrics are called
kafka.metrics.reporters                         classes that report the older metrics
kohort.strictness                               requests that Apache Kafka never answers: no response (kafka), or an error (helpful) (see docs/reference/configuration.md#kohortstrictness)
leader.imbalance.check.interval.seconds         interval at which partitions that their preferred replica does not lead are searched for
leader.replication.throttled.rate               rate limit of throttled leaders, in bytes per second
listener.security.protocol.map                  security protocol of each listener | PLAINTEXT only
listeners                                       addresses that the broker listens on | --host and --port
log.cleaner.backoff.ms                          pause between two rounds of compaction
log.cleaner.dedupe.buffer.size                  memory of compaction for the keys of a log, in bytes
log.cleaner.delete.retention.ms                 time that compaction keeps tombstones
log.cleaner.enable                              whether compacted topics are compacted
log.cleaner.io.buffer.load.factor               maximum load of the memory for keys before a round of compaction ends
log.cleaner.io.buffer.size                      memory of compaction for reading and writing, in bytes
log.cleaner.io.max.bytes.per.second             maximum rate at which compaction reads and writes
log.cleaner.max.compaction.lag.ms               maximum time that a record may wait for compaction
log.cleaner.min.cleanable.ratio                 minimum share of new data in a log before it is compacted
log.cleaner.min.compaction.lag.ms               minimum age of a record before it is compacted
log.cleaner.threads                             number of threads for compaction
log.cleanup.policy                              cleanup policy for old records: delete, compact, or both
log.dir                                         directory that DescribeLogDirs names if there is no --data-dir
log.dir.failure.timeout.ms                      time in which a broker must report a failed log directory to the controller; otherwise it stops
log.dirs                                        log directories | --data-dir
log.flush.interval.messages                     number of records after which a log file is flushed to the disk (fsync)
log.flush.interval.ms                           maximum time before a log file is flushed
log.flush.offset.checkpoint.interval.ms         interval at which checkpoints are written; records after them are checked after a crash
log.flush.scheduler.interval.ms                 default of log.flush.interval.ms
log.flush.start.offset.checkpoint.interval.ms   interval at which the start offsets of logs are saved
log.index.interval.bytes                        bytes of a log file per index entry
log.index.size.max.bytes                        maximum size of an index; a larger one rolls the log file
log.initial.task.delay.ms                       delay of retention and flushing after the start
log.local.retention.bytes                       bytes of a partition that stay on the local disk when the rest is in remote storage
log.local.retention.ms                          time that records stay on the local disk when they are in remote storage
log.message.timestamp.after.max.ms              maximum difference of a record's timestamp ahead of the broker's clock
log.message.timestamp.before.max.ms             maximum difference of a record's timestamp behind the broker's clock
log.message.timestamp.type                      timestamps of records: CreateTime for the producer's, LogAppendTime for the broker's
log.preallocate                                 whether a new log file gets its full size at once
log.retention.bytes                             maximum size of a partition before old records are deleted, in bytes; -1: unlimited
log.retention.check.interval.ms                 interval at which old records are deleted
log.retention.hours                             time that records are kept, in hours; log.retention.ms and log.retention.minutes override it
log.retention.minutes                           time that records are kept, in minutes; log.retention.ms overrides it
log.retention.ms                                time that records are kept, in milliseconds; -1: forever
log.roll.hours                                  time after which a new log file is started, in hours; log.roll.ms overrides it
log.roll.jitter.hours                           maximum random reduction of log.roll.hours; log.roll.jitter.ms overrides it
log.roll.jitter.ms                              maximum random reduction of log.roll.ms
log.roll.ms                                     time after which a new log file is started, in milliseconds
log.segment.bytes                               maximum size of a log file, in bytes
log.segment.delete.delay.ms                     time before a deleted log file is removed from the disk
max.connection.creation.rate                    maximum number of new connections per second
max.connections                                 maximum number of open connections
max.connections.per.ip                          maximum number of connections of one address
max.connections.per.ip.overrides                other limits for single addresses
max.incremental.fetch.session.cache.slots       maximum number of fetch sessions (KIP-227)
max.request.partition.size.limit                maximum number of partitions in a DescribeTopicPartitions response
message.max.bytes                               maximum size of a record batch, in bytes
metadata.log.dir                                directory of the metadata log
metadata.log.max.record.bytes.between.snapshots bytes of metadata after which a snapshot is made
metadata.log.max.snapshot.interval.ms           time after which a snapshot of the metadata is made
metadata.log.segment.bytes                      maximum size of a metadata log file, in bytes
metadata.log.segment.ms                         time after which a new metadata log file is started
metadata.max.idle.interval.ms                   interval at which the metadata leader writes a record if nothing changes
metadata.max.retention.bytes                    maximum size of the metadata log and its snapshots, in bytes
metadata.max.retention.ms                       time that the metadata log and its snapshots are kept
metric.reporters                                classes that report metrics | an HTTP port with /metrics
metrics.num.samples                             number of samples of a metric
metrics.recording.level                         level of detail of metrics
metrics.sample.window.ms                        length of one sample of a metric
min.insync.replicas                             number of replicas that must run for a Produce with acks=all, at most all replicas of the partition; otherwise it gets NOT_ENOUGH_REPLICAS
node.id                                         id of the first node; Kafka has no default for it
num.io.threads                                  number of threads that handle requests
num.network.threads                             number of threads that read requests and write responses
num.partitions                                  default number of partitions of a new topic
num.recovery.threads.per.data.dir               number of threads that load logs at the start, and flush them at the end
num.replica.alter.log.dirs.threads              number of threads that move partitions between log directories
num.replica.fetchers                            number of threads that copy from each other broker
offset.metadata.max.bytes                       maximum length of the metadata of a committed offset
offsets.commit.timeout.ms                       time that a write to __consumer_offsets waits for the replicas
offsets.load.buffer.size                        amount of __consumer_offsets that is read at once while groups are loaded
offsets.retention.check.interval.ms             interval at which expired offsets are deleted
offsets.retention.minutes                       time that offsets are kept once the group is empty, or after their commit if no member subscribes to the topic (KIP-211)
offsets.topic.compression.codec                 codec of the records of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
offsets.topic.num.partitions                    number of partitions of __consumer_offsets, and so of coordinators
offsets.topic.replication.factor                number of replicas of __consumer_offsets; with fewer nodes, as many as there are
offsets.topic.segment.bytes                     maximum size of a log file of __consumer_offsets, in bytes
principal.builder.class                         class that derives the user's name from a connection
process.roles                                   whether the process is a broker, a controller, or both | always both
producer.id.expiration.check.interval.ms        interval at which expired producer ids are removed
producer.id.expiration.ms                       time without a batch after which an idempotent producer is forgotten
producer.purgatory.purge.interval.requests      number of waiting produce requests after which finished ones are purged
queued.max.request.bytes                        maximum memory of requests of more than 16 KB until they are handled, in bytes; -1: 256 MB (see docs/reference/limits.md)
queued.max.requests                             maximum number of waiting requests before reading stops
quota.window.num                                number of samples of the quota of clients
quota.window.size.seconds                       length of one sample of the quota of clients
remote.fetch.max.wait.ms                        time that a fetch waits for remote storage
remote.list.offsets.request.timeout.ms          time that ListOffsets waits for remote storage
remote.log.index.file.cache.total.size.bytes    maximum size of the local cache of remote indexes, in bytes
remote.log.index.file.cache.ttl.ms              time that an index from remote storage is cached
remote.log.manager.copier.thread.pool.size      number of threads that copy log files to remote storage
remote.log.manager.copy.max.bytes.per.second    maximum rate of copies to remote storage
remote.log.manager.copy.quota.window.num        number of samples of the quota of copies to remote storage
remote.log.manager.copy.quota.window.size.seconds length of one sample of the quota of copies to remote storage
remote.log.manager.expiration.thread.pool.size  number of threads that delete old log files in remote storage
remote.log.manager.fetch.max.bytes.per.second   maximum rate of reads from remote storage
remote.log.manager.fetch.quota.window.num       number of samples of the quota of reads of remote storage
remote.log.manager.fetch.quota.window.size.seconds length of one sample of the quota of reads of remote storage
remote.log.manager.follower.thread.pool.size    number of threads that track the leaders' remote storage
remote.log.manager.task.interval.ms             interval of copying to and deleting from remote storage
remote.log.manager.task.retry.backoff.max.ms    maximum pause after remote storage failed
remote.log.manager.task.retry.backoff.ms        first pause after remote storage failed
remote.log.manager.task.retry.jitter            random share of the pause after remote storage failed
remote.log.manager.thread.pool.size             number of threads for remote storage, before each kind of work had its own
remote.log.metadata.custom.metadata.max.bytes   maximum metadata of a log file from a remote storage plug-in, in bytes
remote.log.metadata.manager.class.name          class that manages the metadata of remote storage
remote.log.metadata.manager.class.path          class path of the class for the metadata of remote storage
remote.log.metadata.manager.impl.prefix         prefix of the keys for the class that manages the metadata of remote storage
remote.log.metadata.manager.listener.name       listener that the class for the metadata of remote storage connects to
remote.log.reader.max.pending.tasks             maximum number of waiting reads of remote storage
remote.log.reader.threads                       number of threads that read remote storage
remote.log.storage.manager.class.name           class that stores log files remotely
remote.log.storage.manager.class.path           class path of the class that stores log files remotely
remote.log.storage.manager.impl.prefix          prefix of the keys for the class that stores log files remotely
remote.log.storage.system.enable                whether topics can have remote storage
replica.alter.log.dirs.io.max.bytes.per.second  maximum rate at which partitions move between log directories
replica.fetch.backoff.ms                        pause of a follower after an error
replica.fetch.max.bytes                         maximum size of a follower's fetch of one partition, in bytes
replica.fetch.min.bytes                         minimum size that a follower's fetch waits for, in bytes
replica.fetch.response.max.bytes                maximum size of a follower's fetch, in bytes
replica.fetch.wait.max.ms                       maximum time that a follower's fetch waits for records
replica.high.watermark.checkpoint.interval.ms   interval at which high watermarks are saved
replica.lag.time.max.ms                         time after which a lagging follower is removed from the in-sync replicas
replica.selector.class                          class that selects the replica for consumers to read
replica.socket.receive.buffer.bytes             receive buffer of a follower's connection, in bytes
replica.socket.timeout.ms                       time that a follower waits for a response
replication.quota.window.num                    number of samples of the quota of replication
replication.quota.window.size.seconds           length of one sample of the quota of replication
request.timeout.ms                              time that a broker waits for a response from another one
response.delay.ms                               delay of each response (see docs/how-to/client-test-suites.md)
sasl.client.callback.handler.class              class that handles callbacks of SASL clients
sasl.enabled.mechanisms                         SASL mechanisms that clients can use
sasl.jaas.config                                login of a listener, in the format of JAAS
sasl.kerberos.kinit.cmd                         command that renews a Kerberos ticket
sasl.kerberos.min.time.before.relogin           minimum time between two renewals of a Kerberos ticket
sasl.kerberos.principal.to.local.rules          rules that map Kerberos principals to user names
sasl.kerberos.service.name                      Kerberos name that brokers run under
sasl.kerberos.ticket.renew.jitter               random share of the time until a Kerberos ticket is renewed
sasl.kerberos.ticket.renew.window.factor        share of a Kerberos ticket's lifetime after which it is renewed
sasl.login.callback.handler.class               class that handles callbacks of a SASL login
sasl.login.class                                class of a SASL login
sasl.login.connect.timeout.ms                   maximum time to connect to the login provider
sasl.login.read.timeout.ms                      maximum time to read from the login provider
sasl.login.refresh.buffer.seconds               minimum time between the renewal and the end of a login
sasl.login.refresh.min.period.seconds           minimum time between two renewals of a login
sasl.login.refresh.window.factor                share of a login's lifetime after which it is renewed
sasl.login.refresh.window.jitter                random share of the time until a login is renewed
sasl.login.retry.backoff.max.ms                 maximum pause after the login provider failed
sasl.login.retry.backoff.ms                     first pause after the login provider failed
sasl.mechanism.controller.protocol              SASL mechanism between brokers and controllers
sasl.mechanism.inter.broker.protocol            SASL mechanism between brokers
sasl.oauthbearer.assertion.algorithm            algorithm that signs OAuth assertions
sasl.oauthbearer.assertion.claim.aud            audience of OAuth assertions
sasl.oauthbearer.assertion.claim.exp.seconds    time for which OAuth assertions are valid
sasl.oauthbearer.assertion.claim.iss            issuer of OAuth assertions
sasl.oauthbearer.assertion.claim.jti.include    whether OAuth assertions have unique ids
sasl.oauthbearer.assertion.claim.nbf.seconds    time before the present at which OAuth assertions begin to be valid
sasl.oauthbearer.assertion.claim.sub            subject of OAuth assertions
sasl.oauthbearer.assertion.file                 file with a complete OAuth assertion
sasl.oauthbearer.assertion.private.key.file     file with the key that signs OAuth assertions
sasl.oauthbearer.assertion.private.key.passphrase passphrase of the key that signs OAuth assertions
sasl.oauthbearer.assertion.template.file        template file of OAuth assertions
sasl.oauthbearer.client.credentials.client.id   id of the OAuth client
sasl.oauthbearer.client.credentials.client.secret secret of the OAuth client
sasl.oauthbearer.clock.skew.seconds             maximum deviation of the OAuth provider's clock
sasl.oauthbearer.expected.audience              accepted audiences of a token
sasl.oauthbearer.expected.issuer                required issuer of a token
sasl.oauthbearer.jwks.endpoint.refresh.ms       time that the OAuth provider's keys are cached
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms maximum pause after reading the OAuth provider's keys failed
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms first pause after reading the OAuth provider's keys failed
sasl.oauthbearer.jwks.endpoint.url              URL of the OAuth provider's keys
sasl.oauthbearer.jwt.retriever.class            class that retrieves tokens
sasl.oauthbearer.jwt.validator.class            class that validates tokens
sasl.oauthbearer.scope                          scope of requested tokens
sasl.oauthbearer.scope.claim.name               name of the scope in a token
sasl.oauthbearer.sub.claim.name                 name of the subject in a token
sasl.oauthbearer.token.endpoint.url             URL at which the OAuth provider issues tokens
sasl.server.callback.handler.class              class that handles callbacks of the SASL server
sasl.server.max.receive.size                    maximum size of a client's SASL message, in bytes
security.inter.broker.protocol                  security protocol between brokers
security.providers                              classes that provide security algorithms
server.max.startup.time.ms                      maximum time of a start
share.coordinator.append.linger.ms              time that records of share groups wait for more before they are written
share.coordinator.cached.buffer.max.bytes       largest write buffer that the share coordinator keeps for its next write
share.coordinator.cold.partition.snapshot.interval.ms time without changes after which a full snapshot of a share partition is written
share.coordinator.load.buffer.size              amount of share group state that is read at once
share.coordinator.snapshot.update.records.per.snapshot number of changes of a share partition between two snapshots
share.coordinator.state.topic.compression.codec codec of the share group state topic
share.coordinator.state.topic.min.isr           min.insync.replicas of the share group state topic
share.coordinator.state.topic.num.partitions    number of partitions of the share group state topic
share.coordinator.state.topic.prune.interval.ms interval at which obsolete records of share group state are deleted
share.coordinator.state.topic.replication.factor number of replicas of the share group state topic
share.coordinator.state.topic.segment.bytes     maximum size of a log file of the share group state topic, in bytes
share.coordinator.threads                       number of threads of the share coordinator
share.coordinator.write.timeout.ms              time that a write of the share coordinator waits for the replicas
share.fetch.purgatory.purge.interval.requests   number of waiting share fetches after which finished ones are purged
socket.connection.setup.timeout.max.ms          maximum time that a broker waits for a connection to another one
socket.connection.setup.timeout.ms              time that the first attempt to connect to another broker waits
socket.listen.backlog.size                      maximum number of connections that wait to be accepted
socket.receive.buffer.bytes                     receive buffer of a connection, in bytes
socket.request.max.bytes                        maximum size of a request; a longer one closes its connection
socket.send.buffer.bytes                        send buffer of a connection, in bytes
ssl.allow.dn.changes                            whether a new certificate may have another distinguished name
ssl.allow.san.changes                           whether a new certificate may have other alternative names
ssl.cipher.suites                               allowed TLS ciphers; all if empty
ssl.client.auth                                 whether clients need a certificate
ssl.enabled.protocols                           allowed TLS versions
ssl.endpoint.identification.algorithm           algorithm that checks a server's name against its certificate
ssl.engine.factory.class                        class that creates TLS engines
ssl.key.password                                passphrase of the broker's private key
ssl.keymanager.algorithm                        algorithm of Java's key manager
ssl.keystore.certificate.chain                  certificates of the broker, as PEM
ssl.keystore.key                                private key of the broker, as PEM
ssl.keystore.location                           file of the key store
ssl.keystore.password                           password of the key store
ssl.keystore.type                               format of the key store
ssl.principal.mapping.rules                     rules that map certificates to user names
ssl.protocol                                    TLS version that connections start with
ssl.provider                                    TLS provider in Java
ssl.secure.random.implementation                random number generator of TLS
ssl.trustmanager.algorithm                      algorithm of Java's trust manager
ssl.truststore.certificates                     certificates that are trusted, as PEM
ssl.truststore.location                         file of the trust store
ssl.truststore.password                         password of the trust store
ssl.truststore.type                             format of the trust store
telemetry.max.bytes                             maximum size of one batch of client metrics, in bytes
transaction.abort.timed.out.transaction.cleanup.interval.ms interval at which timed-out transactions are aborted
transaction.max.timeout.ms                      maximum timeout of a transaction
transaction.markers.delay.ms                    time from the answer to EndTxn to its markers, for which requests about the transactional id get CONCURRENT_TRANSACTIONS. -1: the rest of one turn of the event loop, so that requests that arrive together are handled as in Kafka; 0: no waiting, the markers come before the answer; above 0: for testing clients with a longer wait
transaction.partition.verification.enable       whether the transaction coordinator is asked before Produce opens a transaction in a partition (Produce v12 and later always asks)
transaction.remove.expired.transaction.cleanup.interval.ms interval at which expired transactional ids are removed
transaction.state.log.load.buffer.size          amount of the transaction topic that is read at once
transaction.state.log.min.isr                   min.insync.replicas of __transaction_state, at most its replicas
transaction.state.log.num.partitions            number of partitions of __transaction_state, and so of transaction coordinators
transaction.state.log.replication.factor        number of replicas of __transaction_state; with fewer nodes, as many as there are
transaction.state.log.segment.bytes             maximum size of a log file of __transaction_state, in bytes
transaction.two.phase.commit.enable             whether transactions can wait for another system's commit
transactional.id.expiration.ms                  time without use after which a transactional id without an open transaction is forgotten
unclean.leader.election.enable                  whether a replica that is not in sync may become leader
unclean.leader.election.interval.ms             interval at which partitions that need an unclean election are searched for
unstable.api.versions.enable                    whether unstable API versions are served
unstable.feature.versions.enable                whether unstable feature versions are allowed
wire.error.numbering                            number of GROUP_MAX_SIZE_REACHED on the wire (see docs/reference/configuration.md)
"""

_TOPIC = """
cleanup.policy                                  cleanup policy for old records: delete, compact, or both
compression.gzip.level                          gzip level if compression.type is gzip; -1: zlib's default
compression.lz4.level                           lz4 level if compression.type is lz4
compression.type                                codec of stored batches: producer keeps the producer's; otherwise batches of another codec are recompressed
compression.zstd.level                          zstd level if compression.type is zstd
delete.retention.ms                             time that compaction keeps tombstones
file.delete.delay.ms                            time before a deleted log file is removed from the disk
flush.messages                                  number of records after which a log file is flushed to the disk (fsync)
flush.ms                                        maximum time before a log file is flushed
follower.replication.throttled.replicas         replicas that copy at the throttled rate
index.interval.bytes                            bytes of a log file per index entry
internal.segment.bytes                          maximum size of a log file, in bytes; for tests of Kafka
leader.replication.throttled.replicas           replicas that are copied from at the throttled rate
local.retention.bytes                           bytes of a partition that stay on the local disk when the rest is in remote storage
local.retention.ms                              time that records stay on the local disk when they are in remote storage
max.compaction.lag.ms                           maximum time that a record may wait for compaction
max.message.bytes                               maximum size of a record batch, in bytes
message.timestamp.after.max.ms                  maximum difference of a record's timestamp ahead of the broker's clock
message.timestamp.before.max.ms                 maximum difference of a record's timestamp behind the broker's clock
message.timestamp.type                          timestamps of records: CreateTime for the producer's, LogAppendTime for the broker's
min.cleanable.dirty.ratio                       minimum share of new data in a log before it is compacted
min.compaction.lag.ms                           minimum age of a record before it is compacted
min.insync.replicas                             number of replicas that must run for a Produce with acks=all, at most all replicas of the partition; otherwise it gets NOT_ENOUGH_REPLICAS
preallocate                                     whether a new log file gets its full size at once
remote.log.copy.disable                         whether copying to remote storage has stopped
remote.log.delete.on.disable                    whether disabling remote storage deletes its records
remote.storage.enable                           whether old log files are moved to remote storage
retention.bytes                                 maximum size of a partition before old records are deleted, in bytes; -1: unlimited
retention.ms                                    time that records are kept; -1: forever
segment.bytes                                   maximum size of a log file, in bytes
segment.index.bytes                             maximum size of an index; a larger one rolls the log file
segment.jitter.ms                               maximum random reduction of segment.ms
segment.ms                                      time after which a new log file is started
unclean.leader.election.enable                  whether a replica that is not in sync may become leader
"""

_GROUP = """
consumer.assignment.interval.ms                 minimum time between two assignments of a consumer group (KIP-848)
consumer.heartbeat.interval.ms                  heartbeat interval of members of a consumer group (KIP-848)
consumer.session.timeout.ms                     time without a heartbeat after which a member of a consumer group is removed (KIP-848)
share.assignment.interval.ms                    minimum time between two assignments of a share group (KIP-932)
share.auto.offset.reset                         offset at which a share group starts to read
share.delivery.count.limit                      maximum number of deliveries of a record to a share group
share.heartbeat.interval.ms                     heartbeat interval of members of a share group
share.isolation.level                           whether a share group sees records of open or aborted transactions
share.partition.max.record.locks                maximum number of locked records of a partition in a share group
share.record.lock.duration.ms                   time for which a member of a share group can lock a record
share.renew.acknowledge.enable                  whether a member of a share group can extend its lock on a record
share.session.timeout.ms                        time without a heartbeat after which a member of a share group is removed
streams.assignment.interval.ms                  minimum time between two assignments of a streams group (KIP-1071)
streams.heartbeat.interval.ms                   heartbeat interval of members of a streams group
streams.initial.rebalance.delay.ms              time that the first rebalance of a streams group waits for more members
streams.num.standby.replicas                    number of standby replicas of each task of a streams group
streams.session.timeout.ms                      time without a heartbeat after which a member of a streams group is removed
"""

_CLIENT_METRICS = """
interval.ms                                     interval at which the clients send their metrics (KIP-714)
match                                           clients that a subscription is for, as field=pattern
metrics                                         prefixes of the names of the metrics to send; * for all
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
