"""Apache Kafka 4.3's configuration keys with their defaults, and kohort's own.

A row is `name type default allowed mode [used]`:

- type: as in ConfigDef: boolean, string, int, short, long, double, list, class,
  password.
- default: `null` for none, `""` for the empty text.
- allowed: `1..` and `1..9` are ranges, `1..9|-1` allows one more number, `a|b` lists
  the valid texts, or elements of a list (case-insensitive after `~`), `nonempty` forbids
  the empty text, `*` allows all values of the type.
- mode: `read-only`, `cluster-wide` and `per-broker` are the modes of KIP-226;
  `per-listener` keys can be changed only with the prefix ``listener.name.NAME.``.
  `hidden` keys are read-only, `dynamic-only` keys are set at run time; both are
  described only if set.
- used: the key has an effect in kohort; others are accepted with a warning.

Rows of topics, groups and client metrics have, in place of the mode, the broker keys
that supply the default; the first one that is set wins. `-` stands for none.

`kohort.broker.config_docs` has a text for each key.
"""

from __future__ import annotations

from kohort.protocol.slotted import slotted

# Kafka knows offloading assignors by name only: no broker ConfigDef contains them, and
# setting them has no effect in Kafka, either.
#
# node.id has no default in Kafka, which requires it; kohort starts without any setting,
# as node 1.
_BROKER = """
add.partitions.to.txn.retry.backoff.max.ms      int      100 0.. read-only used
add.partitions.to.txn.retry.backoff.ms          int      20 1.. read-only used
advertised.listeners                            list     null * read-only
alter.config.policy.class.name                  class    null * read-only
alter.log.dirs.replication.quota.window.num     int      11 1.. read-only
alter.log.dirs.replication.quota.window.size.seconds int      1 1.. read-only
authorizer.class.name                           string   "" * read-only
auto.create.topics.enable                       boolean  true * read-only used
auto.leader.rebalance.enable                    boolean  true * read-only
background.threads                              int      10 1.. cluster-wide
broker.heartbeat.interval.ms                    int      2000 * read-only
broker.id                                       int      -1 * read-only
broker.rack                                     string   null * read-only
broker.session.timeout.ms                       int      9000 * read-only
client.quota.callback.class                     class    null * read-only
compression.gzip.level                          int      -1 1..9|-1 cluster-wide used
compression.lz4.level                           int      9 1..17 cluster-wide used
compression.type                                string   producer uncompressed|zstd|lz4|snappy|gzip|producer cluster-wide used
compression.zstd.level                          int      3 -131072..22 cluster-wide used
config.providers                                list     "" * cluster-wide
connection.failed.authentication.delay.ms       int      100 0.. read-only
connections.max.idle.ms                         long     600000 * read-only used
connections.max.reauth.ms                       long     0 * read-only
controlled.shutdown.enable                      boolean  true * read-only
controller.listener.names                       list     null * read-only
controller.performance.always.log.threshold.ms  long     2000 0.. hidden
controller.performance.sample.period.ms         long     60000 100.. hidden
controller.quorum.append.linger.ms              int      25 0.. read-only
controller.quorum.auto.join.enable              boolean  false * read-only
controller.quorum.bootstrap.servers             list     "" nonempty read-only
controller.quorum.election.backoff.max.ms       int      1000 0.. read-only
controller.quorum.election.timeout.ms           int      1000 0.. read-only
controller.quorum.fetch.max.bytes               int      1048576 1.. read-only
controller.quorum.fetch.snapshot.max.bytes      int      1048576 1.. read-only
controller.quorum.fetch.timeout.ms              int      2000 0.. read-only
controller.quorum.request.timeout.ms            int      2000 0.. read-only
controller.quorum.retry.backoff.ms              int      20 0.. read-only
controller.quorum.voters                        list     "" nonempty read-only
controller.quota.window.num                     int      11 1.. read-only used
controller.quota.window.size.seconds            int      1 1.. read-only used
controller.socket.timeout.ms                    int      30000 * read-only
cordoned.log.dirs                               list     "" * per-broker
create.topic.policy.class.name                  class    null * read-only
default.replication.factor                      int      1 * read-only used
delegation.token.expiry.check.interval.ms       long     3600000 1.. read-only
delegation.token.expiry.time.ms                 long     86400000 1.. read-only
delegation.token.max.lifetime.ms                long     604800000 1.. read-only
delegation.token.secret.key                     password null * read-only
delete.records.purgatory.purge.interval.requests int      1 * read-only
delete.topic.enable                             boolean  true * read-only used
early.start.listeners                           list     null * read-only
fetch.max.bytes                                 int      57671680 1024.. read-only used
fetch.purgatory.purge.interval.requests         int      1000 * read-only
follower.fetch.last.tiered.offset.enable        boolean  false * cluster-wide
follower.replication.throttled.rate             long     9223372036854775807 0.. dynamic-only
group.consumer.assignment.interval.ms           int      1000 0.. cluster-wide used
group.consumer.assignor.offload.enable          boolean  true * hidden
group.consumer.assignors                        list     uniform,range uniform|range read-only used
group.consumer.heartbeat.interval.ms            int      5000 1.. read-only used
group.consumer.max.assignment.interval.ms       int      15000 0.. read-only used
group.consumer.max.heartbeat.interval.ms        int      15000 1.. read-only used
group.consumer.max.session.timeout.ms           int      60000 1.. read-only used
group.consumer.max.size                         int      2147483647 1.. read-only used
group.consumer.migration.policy                 string   bidirectional ~DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL read-only used
group.consumer.min.assignment.interval.ms       int      0 0.. read-only used
group.consumer.min.heartbeat.interval.ms        int      5000 1.. read-only used
group.consumer.min.session.timeout.ms           int      45000 1.. read-only used
group.consumer.regex.refresh.interval.ms        int      600000 10000.. hidden used
group.consumer.session.timeout.ms               int      45000 1.. read-only used
group.coordinator.append.linger.ms              int      -1 -1.. read-only used
group.coordinator.background.threads            int      2 1.. read-only
group.coordinator.cached.buffer.max.bytes       int      1048588 524288.. cluster-wide
group.coordinator.rebalance.protocols           list     classic,consumer,streams consumer|classic|share|streams read-only used
group.coordinator.threads                       int      4 1.. read-only
group.initial.rebalance.delay.ms                int      3000 * read-only used
group.max.session.timeout.ms                    int      1800000 * read-only used
group.max.size                                  int      2147483647 1.. read-only used
group.min.session.timeout.ms                    int      6000 * read-only used
group.share.assignment.interval.ms              int      1000 0.. cluster-wide
group.share.assignor.offload.enable             boolean  true * hidden
group.share.assignors                           list     simple * read-only
group.share.delivery.count.limit                int      5 2..10 read-only
group.share.heartbeat.interval.ms               int      5000 1.. read-only
group.share.initialize.retry.interval.ms        int      30000 1.. hidden
group.share.max.assignment.interval.ms          int      15000 0.. read-only
group.share.max.delivery.count.limit            int      10 5..25 read-only
group.share.max.heartbeat.interval.ms           int      15000 1.. read-only
group.share.max.partition.max.record.locks      int      4000 2000..10000 read-only
group.share.max.record.lock.duration.ms         int      60000 30000..3600000 read-only
group.share.max.session.timeout.ms              int      60000 1.. read-only
group.share.max.share.sessions                  int      2000 1.. read-only
group.share.max.size                            int      200 1..1000 read-only
group.share.min.assignment.interval.ms          int      0 0.. read-only
group.share.min.delivery.count.limit            int      2 2..5 read-only
group.share.min.heartbeat.interval.ms           int      5000 1.. read-only
group.share.min.partition.max.record.locks      int      100 100..2000 read-only
group.share.min.record.lock.duration.ms         int      15000 1000..30000 read-only
group.share.min.session.timeout.ms              int      45000 1.. read-only
group.share.partition.max.record.locks          int      2000 100..10000 read-only
group.share.persister.class.name                string   org.apache.kafka.server.share.persister.DefaultStatePersister * hidden
group.share.record.lock.duration.ms             int      30000 1000..3600000 read-only
group.share.session.timeout.ms                  int      45000 1.. read-only
group.streams.assignment.interval.ms            int      1000 0.. cluster-wide
group.streams.assignor.offload.enable           boolean  true * hidden
group.streams.heartbeat.interval.ms             int      5000 1.. read-only
group.streams.initial.rebalance.delay.ms        int      3000 0.. read-only
group.streams.max.assignment.interval.ms        int      15000 0.. read-only
group.streams.max.heartbeat.interval.ms         int      15000 1.. read-only
group.streams.max.session.timeout.ms            int      60000 1.. read-only
group.streams.max.size                          int      2147483647 1.. read-only
group.streams.max.standby.replicas              int      2 0.. read-only
group.streams.min.assignment.interval.ms        int      0 0.. read-only
group.streams.min.heartbeat.interval.ms         int      5000 1.. read-only
group.streams.min.session.timeout.ms            int      45000 1.. read-only
group.streams.num.standby.replicas              int      0 0.. read-only
group.streams.session.timeout.ms                int      45000 1.. read-only
initial.broker.registration.timeout.ms          int      60000 * read-only
inter.broker.listener.name                      string   null * read-only
internal.metadata.delete.delay.millis           long     60000 * hidden
internal.metadata.log.segment.bytes             int      null * hidden
internal.metadata.max.batch.size.in.bytes       int      8388608 * hidden
kafka.metrics.polling.interval.secs             int      10 1.. read-only
kafka.metrics.reporters                         list     "" * read-only
leader.imbalance.check.interval.seconds         long     300 1.. read-only
leader.replication.throttled.rate               long     9223372036854775807 0.. dynamic-only
listener.security.protocol.map                  string   SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT * per-broker
listeners                                       list     PLAINTEXT://:9092 * per-broker
log.cleaner.backoff.ms                          long     15000 0.. cluster-wide used
log.cleaner.dedupe.buffer.size                  long     134217728 * cluster-wide
log.cleaner.delete.retention.ms                 long     86400000 0.. cluster-wide used
log.cleaner.enable                              boolean  true * read-only used
log.cleaner.io.buffer.load.factor               double   0.9 * cluster-wide
log.cleaner.io.buffer.size                      int      524288 0.. cluster-wide
log.cleaner.io.max.bytes.per.second             double   1.7976931348623157E308 * cluster-wide
log.cleaner.max.compaction.lag.ms               long     9223372036854775807 1.. cluster-wide used
log.cleaner.min.cleanable.ratio                 double   0.5 0..1 cluster-wide used
log.cleaner.min.compaction.lag.ms               long     0 0.. cluster-wide used
log.cleaner.threads                             int      1 0.. cluster-wide
log.cleanup.policy                              list     delete compact|delete cluster-wide used
log.dir                                         list     /tmp/kafka-logs * read-only used
log.dir.failure.timeout.ms                      long     30000 1.. read-only
log.dirs                                        list     null * read-only
log.flush.interval.messages                     long     9223372036854775807 1.. cluster-wide used
log.flush.interval.ms                           long     null * cluster-wide used
log.flush.offset.checkpoint.interval.ms         int      60000 0.. read-only used
log.flush.scheduler.interval.ms                 long     9223372036854775807 * read-only used
log.flush.start.offset.checkpoint.interval.ms   int      60000 0.. read-only
log.index.interval.bytes                        int      4096 0.. cluster-wide used
log.index.size.max.bytes                        int      10485760 4.. cluster-wide used
log.initial.task.delay.ms                       long     30000 0.. hidden
log.local.retention.bytes                       long     -2 -2.. cluster-wide
log.local.retention.ms                          long     -2 -2.. cluster-wide
log.message.timestamp.after.max.ms              long     3600000 0.. cluster-wide used
log.message.timestamp.before.max.ms             long     9223372036854775807 0.. cluster-wide used
log.message.timestamp.type                      string   CreateTime CreateTime|LogAppendTime cluster-wide used
log.preallocate                                 boolean  false * cluster-wide
log.retention.bytes                             long     -1 * cluster-wide used
log.retention.check.interval.ms                 long     300000 1.. read-only used
log.retention.hours                             int      168 * read-only used
log.retention.minutes                           int      null * read-only used
log.retention.ms                                long     null * cluster-wide used
log.roll.hours                                  int      168 1.. read-only used
log.roll.jitter.hours                           int      0 0.. read-only
log.roll.jitter.ms                              long     null * cluster-wide
log.roll.ms                                     long     null * cluster-wide used
log.segment.bytes                               int      1073741824 1048576.. cluster-wide used
log.segment.delete.delay.ms                     long     60000 0.. cluster-wide
max.connection.creation.rate                    int      2147483647 0.. cluster-wide
max.connections                                 int      2147483647 0.. cluster-wide used
max.connections.per.ip                          int      2147483647 0.. cluster-wide
max.connections.per.ip.overrides                string   "" * cluster-wide
max.incremental.fetch.session.cache.slots       int      1000 0.. read-only used
max.request.partition.size.limit                int      2000 1.. read-only used
message.max.bytes                               int      1048588 0.. cluster-wide used
metadata.log.dir                                string   null * read-only
metadata.log.max.record.bytes.between.snapshots long     20971520 1.. read-only
metadata.log.max.snapshot.interval.ms           long     3600000 0.. read-only
metadata.log.segment.bytes                      int      1073741824 8388608.. read-only
metadata.log.segment.ms                         long     604800000 * read-only
metadata.max.idle.interval.ms                   int      500 0.. read-only
metadata.max.retention.bytes                    long     104857600 * read-only
metadata.max.retention.ms                       long     604800000 * read-only
metric.reporters                                list     org.apache.kafka.common.metrics.JmxReporter * cluster-wide
metrics.num.samples                             int      2 1.. read-only
metrics.recording.level                         string   INFO * read-only
metrics.sample.window.ms                        long     30000 1.. read-only
min.insync.replicas                             int      1 1.. cluster-wide used
node.id                                         int      1 0.. read-only used
num.io.threads                                  int      8 1.. cluster-wide
num.network.threads                             int      3 1.. cluster-wide
num.partitions                                  int      1 1.. read-only used
num.recovery.threads.per.data.dir               int      2 1.. cluster-wide
num.replica.alter.log.dirs.threads              int      null * read-only
num.replica.fetchers                            int      1 1.. cluster-wide
offset.metadata.max.bytes                       int      4096 * read-only used
offsets.commit.timeout.ms                       int      5000 1.. read-only
offsets.load.buffer.size                        int      5242880 1.. read-only
offsets.retention.check.interval.ms             long     600000 1.. read-only used
offsets.retention.minutes                       int      10080 1.. read-only used
offsets.topic.compression.codec                 int      0 * read-only used
offsets.topic.num.partitions                    int      50 1.. read-only used
offsets.topic.replication.factor                short    3 1.. read-only used
offsets.topic.segment.bytes                     int      104857600 1.. read-only used
principal.builder.class                         class    org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder * per-broker
process.roles                                   list     null broker|controller read-only
producer.id.expiration.check.interval.ms        int      600000 1.. hidden used
producer.id.expiration.ms                       int      86400000 1.. cluster-wide used
producer.purgatory.purge.interval.requests      int      1000 * read-only
queued.max.request.bytes                        long     -1 * read-only used
queued.max.requests                             int      500 1.. read-only
quota.window.num                                int      11 1.. read-only used
quota.window.size.seconds                       int      1 1.. read-only used
remote.fetch.max.wait.ms                        int      500 1.. cluster-wide
remote.list.offsets.request.timeout.ms          long     30000 1.. cluster-wide
remote.log.index.file.cache.total.size.bytes    long     1073741824 1.. cluster-wide
remote.log.index.file.cache.ttl.ms              long     900000 -1.. hidden
remote.log.manager.copier.thread.pool.size      int      10 1.. cluster-wide
remote.log.manager.copy.max.bytes.per.second    long     9223372036854775807 1.. cluster-wide
remote.log.manager.copy.quota.window.num        int      11 1.. read-only
remote.log.manager.copy.quota.window.size.seconds int      1 1.. read-only
remote.log.manager.expiration.thread.pool.size  int      10 1.. cluster-wide
remote.log.manager.fetch.max.bytes.per.second   long     9223372036854775807 1.. cluster-wide
remote.log.manager.fetch.quota.window.num       int      11 1.. read-only
remote.log.manager.fetch.quota.window.size.seconds int      1 1.. read-only
remote.log.manager.follower.thread.pool.size    int      2 1.. cluster-wide
remote.log.manager.task.interval.ms             long     30000 1.. read-only
remote.log.manager.task.retry.backoff.max.ms    long     30000 1.. hidden
remote.log.manager.task.retry.backoff.ms        long     500 1.. hidden
remote.log.manager.task.retry.jitter            double   0.2 0..0.5 hidden
remote.log.manager.thread.pool.size             int      2 1.. read-only
remote.log.metadata.custom.metadata.max.bytes   int      128 0.. read-only
remote.log.metadata.manager.class.name          string   org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager nonempty read-only
remote.log.metadata.manager.class.path          string   null * read-only
remote.log.metadata.manager.impl.prefix         string   rlmm.config. nonempty read-only
remote.log.metadata.manager.listener.name       string   null nonempty read-only
remote.log.reader.max.pending.tasks             int      100 1.. read-only
remote.log.reader.threads                       int      10 1.. cluster-wide
remote.log.storage.manager.class.name           string   null nonempty read-only
remote.log.storage.manager.class.path           string   null * read-only
remote.log.storage.manager.impl.prefix          string   rsm.config. nonempty read-only
remote.log.storage.system.enable                boolean  false * read-only
replica.alter.log.dirs.io.max.bytes.per.second  long     9223372036854775807 0.. dynamic-only
replica.fetch.backoff.ms                        int      1000 0.. read-only
replica.fetch.max.bytes                         int      1048576 0.. read-only
replica.fetch.min.bytes                         int      1 * read-only
replica.fetch.response.max.bytes                int      10485760 0.. read-only
replica.fetch.wait.max.ms                       int      500 * read-only
replica.high.watermark.checkpoint.interval.ms   long     5000 * read-only
replica.lag.time.max.ms                         long     30000 * read-only
replica.selector.class                          string   null * read-only
replica.socket.receive.buffer.bytes             int      65536 * read-only
replica.socket.timeout.ms                       int      30000 * read-only
replication.quota.window.num                    int      11 1.. read-only
replication.quota.window.size.seconds           int      1 1.. read-only
request.timeout.ms                              int      30000 * read-only
sasl.client.callback.handler.class              class    null * read-only
sasl.enabled.mechanisms                         list     GSSAPI * per-broker
sasl.jaas.config                                password null * per-broker
sasl.kerberos.kinit.cmd                         string   /usr/bin/kinit * per-broker
sasl.kerberos.min.time.before.relogin           long     60000 * per-broker
sasl.kerberos.principal.to.local.rules          list     DEFAULT * per-broker
sasl.kerberos.service.name                      string   null * per-broker
sasl.kerberos.ticket.renew.jitter               double   0.05 * per-broker
sasl.kerberos.ticket.renew.window.factor        double   0.8 * per-broker
sasl.login.callback.handler.class               class    null * read-only
sasl.login.class                                class    null * read-only
sasl.login.connect.timeout.ms                   int      null * read-only
sasl.login.read.timeout.ms                      int      null * read-only
sasl.login.refresh.buffer.seconds               short    300 * per-broker
sasl.login.refresh.min.period.seconds           short    60 * per-broker
sasl.login.refresh.window.factor                double   0.8 * per-broker
sasl.login.refresh.window.jitter                double   0.05 * per-broker
sasl.login.retry.backoff.max.ms                 long     10000 * read-only
sasl.login.retry.backoff.ms                     long     100 * read-only
sasl.mechanism.controller.protocol              string   GSSAPI * read-only
sasl.mechanism.inter.broker.protocol            string   GSSAPI * per-broker
sasl.oauthbearer.assertion.algorithm            string   RS256 ~ES256|RS256 read-only
sasl.oauthbearer.assertion.claim.aud            string   null * read-only
sasl.oauthbearer.assertion.claim.exp.seconds    int      300 0..86400 read-only
sasl.oauthbearer.assertion.claim.iss            string   null * read-only
sasl.oauthbearer.assertion.claim.jti.include    boolean  false * read-only
sasl.oauthbearer.assertion.claim.nbf.seconds    int      60 0..3600 read-only
sasl.oauthbearer.assertion.claim.sub            string   null * read-only
sasl.oauthbearer.assertion.file                 string   null * read-only
sasl.oauthbearer.assertion.private.key.file     string   null * read-only
sasl.oauthbearer.assertion.private.key.passphrase password null * read-only
sasl.oauthbearer.assertion.template.file        string   null * read-only
sasl.oauthbearer.client.credentials.client.id   string   null * read-only
sasl.oauthbearer.client.credentials.client.secret password null * read-only
sasl.oauthbearer.clock.skew.seconds             int      30 * read-only
sasl.oauthbearer.expected.audience              list     "" * read-only
sasl.oauthbearer.expected.issuer                string   null * read-only
sasl.oauthbearer.jwks.endpoint.refresh.ms       long     3600000 * read-only
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long     10000 * read-only
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long     100 * read-only
sasl.oauthbearer.jwks.endpoint.url              string   null * read-only
sasl.oauthbearer.jwt.retriever.class            class    org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever * read-only
sasl.oauthbearer.jwt.validator.class            class    org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator * read-only
sasl.oauthbearer.scope                          string   null * read-only
sasl.oauthbearer.scope.claim.name               string   scope * read-only
sasl.oauthbearer.sub.claim.name                 string   sub * read-only
sasl.oauthbearer.token.endpoint.url             string   null * read-only
sasl.server.callback.handler.class              class    null * read-only
sasl.server.max.receive.size                    int      524288 * read-only
security.inter.broker.protocol                  string   PLAINTEXT PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL read-only
security.providers                              string   null * read-only
server.max.startup.time.ms                      long     9223372036854775807 0.. hidden
share.coordinator.append.linger.ms              int      -1 -1.. read-only
share.coordinator.cached.buffer.max.bytes       int      1048588 524288.. cluster-wide
share.coordinator.cold.partition.snapshot.interval.ms int      300000 1.. hidden
share.coordinator.load.buffer.size              int      5242880 1.. read-only
share.coordinator.snapshot.update.records.per.snapshot int      500 0..500 read-only
share.coordinator.state.topic.compression.codec int      0 * read-only
share.coordinator.state.topic.min.isr           short    2 1.. read-only
share.coordinator.state.topic.num.partitions    int      50 1.. read-only
share.coordinator.state.topic.prune.interval.ms int      300000 1.. hidden
share.coordinator.state.topic.replication.factor short    3 1.. read-only
share.coordinator.state.topic.segment.bytes     int      104857600 1.. read-only
share.coordinator.threads                       int      1 1.. read-only
share.coordinator.write.timeout.ms              int      5000 1.. read-only
share.fetch.purgatory.purge.interval.requests   int      1000 * read-only
socket.connection.setup.timeout.max.ms          long     30000 * read-only
socket.connection.setup.timeout.ms              long     10000 * read-only
socket.listen.backlog.size                      int      50 1.. read-only
socket.receive.buffer.bytes                     int      102400 * read-only
socket.request.max.bytes                        int      104857600 1.. read-only used
socket.send.buffer.bytes                        int      102400 * read-only
ssl.allow.dn.changes                            boolean  false * read-only
ssl.allow.san.changes                           boolean  false * read-only
ssl.cipher.suites                               list     "" * per-broker
ssl.client.auth                                 string   none required|requested|none per-broker
ssl.enabled.protocols                           list     TLSv1.2,TLSv1.3 * per-broker
ssl.endpoint.identification.algorithm           string   https * per-broker
ssl.engine.factory.class                        class    null * per-broker
ssl.key.password                                password null * per-listener
ssl.keymanager.algorithm                        string   SunX509 * per-broker
ssl.keystore.certificate.chain                  password null * per-listener
ssl.keystore.key                                password null * per-listener
ssl.keystore.location                           string   null * per-listener
ssl.keystore.password                           password null * per-listener
ssl.keystore.type                               string   JKS * per-listener
ssl.principal.mapping.rules                     string   DEFAULT * read-only
ssl.protocol                                    string   TLSv1.3 * per-broker
ssl.provider                                    string   null * per-broker
ssl.secure.random.implementation                string   null * per-broker
ssl.trustmanager.algorithm                      string   PKIX * per-broker
ssl.truststore.certificates                     password null * per-listener
ssl.truststore.location                         string   null * per-listener
ssl.truststore.password                         password null * per-listener
ssl.truststore.type                             string   JKS * per-listener
telemetry.max.bytes                             int      1048576 1.. read-only
transaction.abort.timed.out.transaction.cleanup.interval.ms int      10000 1.. read-only used
transaction.max.timeout.ms                      int      900000 1.. read-only used
transaction.partition.verification.enable       boolean  true * cluster-wide used
transaction.remove.expired.transaction.cleanup.interval.ms int      3600000 1.. read-only used
transaction.state.log.load.buffer.size          int      5242880 1.. read-only
transaction.state.log.min.isr                   int      2 1.. read-only used
transaction.state.log.num.partitions            int      50 1.. read-only used
transaction.state.log.replication.factor        short    3 1.. read-only used
transaction.state.log.segment.bytes             int      104857600 1.. read-only used
transaction.two.phase.commit.enable             boolean  false * read-only
transactional.id.expiration.ms                  int      604800000 1.. read-only used
unclean.leader.election.enable                  boolean  false * cluster-wide
unclean.leader.election.interval.ms             long     300000 1.. hidden
unstable.api.versions.enable                    boolean  false * hidden
unstable.feature.versions.enable                boolean  false * hidden
"""

_KOHORT = """
api.versions                                    string   4.3 2.8|3.9|4.0|4.3 read-only used
coordinator.first.use                           string   ready kafka|ready read-only used
coordinator.load.delay.ms                       long     0 0.. read-only used
events.topic.enable                             boolean  false * read-only used
kohort.strictness                               string   kafka kafka|helpful read-only used
response.delay.ms                               long     0 0.. read-only used
transaction.markers.delay.ms                    long     -1 -1.. read-only used
wire.error.numbering                            string   auto auto|kip-389|apache read-only used
"""

_TOPIC = """
cleanup.policy                                  list     delete compact|delete log.cleanup.policy used
compression.gzip.level                          int      -1 1..9|-1 compression.gzip.level used
compression.lz4.level                           int      9 1..17 compression.lz4.level used
compression.type                                string   producer uncompressed|zstd|lz4|snappy|gzip|producer compression.type used
compression.zstd.level                          int      3 -131072..22 compression.zstd.level used
delete.retention.ms                             long     86400000 0.. log.cleaner.delete.retention.ms used
file.delete.delay.ms                            long     60000 0.. log.segment.delete.delay.ms
flush.messages                                  long     9223372036854775807 1.. log.flush.interval.messages used
flush.ms                                        long     9223372036854775807 0.. log.flush.interval.ms|log.flush.scheduler.interval.ms used
follower.replication.throttled.replicas         list     "" * -
index.interval.bytes                            int      4096 0.. log.index.interval.bytes used
internal.segment.bytes                          int      null * hidden
leader.replication.throttled.replicas           list     "" * -
local.retention.bytes                           long     -2 -2.. log.local.retention.bytes
local.retention.ms                              long     -2 -2.. log.local.retention.ms
max.compaction.lag.ms                           long     9223372036854775807 1.. log.cleaner.max.compaction.lag.ms used
max.message.bytes                               int      1048588 0.. message.max.bytes used
message.timestamp.after.max.ms                  long     3600000 0.. log.message.timestamp.after.max.ms used
message.timestamp.before.max.ms                 long     9223372036854775807 0.. log.message.timestamp.before.max.ms used
message.timestamp.type                          string   CreateTime CreateTime|LogAppendTime log.message.timestamp.type used
min.cleanable.dirty.ratio                       double   0.5 0..1 log.cleaner.min.cleanable.ratio used
min.compaction.lag.ms                           long     0 0.. log.cleaner.min.compaction.lag.ms used
min.insync.replicas                             int      1 1.. min.insync.replicas used
preallocate                                     boolean  false * log.preallocate
remote.log.copy.disable                         boolean  false * -
remote.log.delete.on.disable                    boolean  false * -
remote.storage.enable                           boolean  false * -
retention.bytes                                 long     -1 * log.retention.bytes used
retention.ms                                    long     604800000 -1.. log.retention.ms|log.retention.minutes|log.retention.hours used
segment.bytes                                   int      1073741824 1048576.. log.segment.bytes used
segment.index.bytes                             int      10485760 4.. log.index.size.max.bytes used
segment.jitter.ms                               long     0 0.. log.roll.jitter.ms|log.roll.jitter.hours
segment.ms                                      long     604800000 1.. log.roll.ms|log.roll.hours used
unclean.leader.election.enable                  boolean  false * unclean.leader.election.enable
"""

_GROUP = """
consumer.assignment.interval.ms                 int      1000 0.. group.consumer.assignment.interval.ms used
consumer.heartbeat.interval.ms                  int      5000 1.. group.consumer.heartbeat.interval.ms used
consumer.session.timeout.ms                     int      45000 1.. group.consumer.session.timeout.ms used
share.assignment.interval.ms                    int      1000 0.. group.share.assignment.interval.ms
share.auto.offset.reset                         string   latest * -
share.delivery.count.limit                      int      5 2.. group.share.delivery.count.limit
share.heartbeat.interval.ms                     int      5000 1.. group.share.heartbeat.interval.ms
share.isolation.level                           string   read_uncommitted read_committed|read_uncommitted -
share.partition.max.record.locks                int      2000 100.. group.share.partition.max.record.locks
share.record.lock.duration.ms                   int      30000 1000.. group.share.record.lock.duration.ms
share.renew.acknowledge.enable                  boolean  true * -
share.session.timeout.ms                        int      45000 1.. group.share.session.timeout.ms
streams.assignment.interval.ms                  int      1000 0.. group.streams.assignment.interval.ms
streams.heartbeat.interval.ms                   int      5000 1.. group.streams.heartbeat.interval.ms
streams.initial.rebalance.delay.ms              int      3000 0.. group.streams.initial.rebalance.delay.ms
streams.num.standby.replicas                    int      0 0.. group.streams.num.standby.replicas
streams.session.timeout.ms                      int      45000 1.. group.streams.session.timeout.ms
"""

_CLIENT_METRICS = """
interval.ms                                     int      300000 * -
match                                           list     "" * -
metrics                                         list     "" * -
"""


@slotted
class Key:
    """One key of a table.

    Attributes:
        type: ConfigDef's type in lower case; `unknown` for a plug-in's key.
        default: as text; None for null.
        allowed: the valid values, in the notation of the table.
        mode: how it can be changed; `cluster-wide` for all but broker keys.
        used: whether the key has an effect in kohort.
        parents: the broker keys that supply the default of a topic's or group's key.
    """

    name: str
    type: str
    default: str | None
    allowed: str
    mode: str
    used: bool
    parents: tuple[str, ...] = ()

    @property
    def read_only(self) -> bool:
        """True if the value cannot change after the start (KIP-226)."""
        return self.mode in {"read-only", "hidden", "unknown"}

    @property
    def sensitive(self) -> bool:
        """True if the value is never shown."""
        return self.type in {"password", "unknown"}

    @property
    def is_listed(self) -> bool:
        """True if DescribeConfigs lists the key even when it is not set."""
        return self.mode not in {"hidden", "dynamic-only"}


def _default(text: str) -> str | None:
    return {"null": None, '""': ""}.get(text, text)


def _rows(table: str, *, of_broker: bool = False) -> dict[str, Key]:
    keys = {}
    for row in table.strip().splitlines():
        name, kind, default, allowed, mode, *used = row.split()
        parents: tuple[str, ...] = ()
        if not of_broker and mode != "hidden":
            parents = () if mode == "-" else tuple(mode.split("|"))
            mode = "cluster-wide"
        keys[name] = Key(
            name, kind, _default(default), allowed, mode, bool(used), parents
        )
    return keys


KOHORT_KEYS = _rows(_KOHORT, of_broker=True)
"""kohort's own keys by name. Clients see them only when they ask by name."""

BROKER_KEYS = _rows(_BROKER, of_broker=True) | KOHORT_KEYS
"""The broker's keys by name, Kafka's in order, then kohort's own."""

PREFIXES = ("listener.name.", "rlmm.config.", "rsm.config.")
"""Prefixes of keys that Kafka passes on to a listener or a remote log plugin."""

TOPIC_KEYS = _rows(_TOPIC)
"""The keys of topics by name."""

GROUP_KEYS = _rows(_GROUP)
"""The keys of groups by name (KIP-848, KIP-932, KIP-1071)."""

CLIENT_METRICS_KEYS = _rows(_CLIENT_METRICS)
"""The keys of subscriptions to the metrics of clients by name (KIP-714)."""

FAMILIES = {
    name: family
    for family in (
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    for name in family
} | {
    # Not the other way round: the scheduler's interval is only a default.
    "log.flush.interval.ms": (
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    )
}
"""Keys for one quantity in several units, by each of them; the first one set wins."""
