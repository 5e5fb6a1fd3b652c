import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.*;
import org.apache.kafka.common.*;

/** What kafka-clients' own assignors make of generated groups; see README.md beside it. One line of JSON a case. */
class Assignments {
  record Member(String id, String instance, String rack, List<String> topics, List<TopicPartition> owned, int generation, ByteBuffer data) {}
  static Random r;
  static PrintStream out;

  public static void main(String[] a) throws Exception {
    out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);
    if (a[0].equals("bytes")) { bytes(); out.flush(); return; }
    long seed = Long.parseLong(a[0]);
    int count = Integer.parseInt(a[1]), members = Integer.parseInt(a[2]), topics = Integer.parseInt(a[3]), partitions = Integer.parseInt(a[4]);
    for (int i = 0; i < count; i++) { r = new Random(seed * 1_000_003 + i); history(seed + "." + i, members, topics, partitions); }
    out.flush();
  }

  /** What members send one another, in every version; user data as the assignors make it. */
  static void bytes() {
    r = new Random(7);
    for (int i = 0; i < 24; i++) {
      List<TopicPartition> owned = new ArrayList<>();
      for (int t = r.nextInt(6); t > 0; t--) for (int p = r.nextInt(4), topic = r.nextInt(40); p >= 0; p--) owned.add(new TopicPartition("topic-" + topic, p + 3 * t));
      Collections.shuffle(owned, r);
      List<String> topics = new ArrayList<>(new HashSet<>(owned.stream().map(TopicPartition::topic).toList())); topics.add("no-partitions"); Collections.shuffle(topics, r);
      int generation = i % 4 == 0 ? -1 : r.nextInt(1000);
      String rack = i % 3 == 0 ? null : "rack-" + i;
      StickyAssignor s = new StickyAssignor(); CooperativeStickyAssignor c = new CooperativeStickyAssignor();
      ConsumerGroupMetadata meta = new ConsumerGroupMetadata("g", generation, "m", Optional.empty());
      s.onAssignment(new Assignment(owned), meta); c.onAssignment(new Assignment(owned), meta);
      ByteBuffer sticky = s.subscriptionUserData(Set.of()), cooperative = c.subscriptionUserData(Set.of());
      Subscription sub = new Subscription(topics, i % 5 == 0 ? null : cooperative.duplicate(), owned, generation, Optional.ofNullable(rack));
      StringBuilder o = new StringBuilder("{\"partitions\":" + quoted(runs(owned)) + ",\"topics\":" + quoted(String.join(" ", topics)) + ",\"generation\":" + generation + ",\"rack\":" + (rack == null ? "null" : quoted(rack)));
      o.append(",\"sticky\":" + quoted(hex(sticky)) + ",\"cooperative-sticky\":" + quoted(hex(cooperative)) + ",\"user_data\":" + (i % 5 == 0 ? "null" : quoted(hex(cooperative))) + ",\"subscriptions\":[");
      for (short v = 0; v < 4; v++) o.append((v == 0 ? "" : ",") + quoted(hex(ConsumerProtocol.serializeSubscription(sub, v))));
      out.println(o.append("],\"assignment\":" + quoted(hex(ConsumerProtocol.serializeAssignment(new Assignment(owned)))) + "}"));
    }
  }

  static boolean chance(double p) { return r.nextDouble() < p; }
  static <T> T one(List<T> of) { return of.get(r.nextInt(of.size())); }
  static String word(int n) { StringBuilder b = new StringBuilder(); for (int i = 0; i < n; i++) b.append("abcdefghijklmnopqrstuvwxyz0123456789".charAt(r.nextInt(36))); return b.toString(); }

  /** A group through a few rebalances, each with the assignment of the one before as what is owned. */
  static void history(String name, int maxMembers, int maxTopics, int maxPartitions) {
    String assignor = one(List.of("range", "roundrobin", "sticky", "cooperative-sticky", "sticky", "cooperative-sticky"));
    boolean equal = chance(0.6), racks = chance(0.35), statics = chance(0.3), copartitioned = chance(0.4);
    String look = one(List.of("c-%s", "consumer-%s", "%s", "\u00fc%s", "\uD83D\uDE00%s", "\uFF21%s"));
    List<String> rackIds = List.of("a", "b", "c", "d").subList(0, 1 + r.nextInt(4));
    Map<String, List<List<String>>> cluster = new LinkedHashMap<>();
    int width = r.nextInt(maxPartitions + 1), topics = 1 + r.nextInt(maxTopics), replicas = 1 + r.nextInt(3);
    for (int t = 0; t < topics; t++) grow(cluster, chance(0.5) ? "t" + t : word(1 + r.nextInt(9)), copartitioned ? width : r.nextInt(maxPartitions + 1), racks, rackIds, replicas);
    List<String> names = new ArrayList<>(cluster.keySet());
    if (chance(0.1)) names.add("unknown");
    List<String> common = pick(names);
    List<Member> group = new ArrayList<>();
    for (int n = 1 + r.nextInt(maxMembers); n > 0; n--) group.add(join(look, equal ? common : pick(names), statics, racks, rackIds));
    boolean old = assignor.startsWith("c") && chance(0.2); // subscriptions v1: the generation is in the user data only
    int generation = 1, rounds = assignor.contains("sticky") ? 1 + r.nextInt(4) : 1;
    for (int round = 0; ; round++) {
      Map<String, List<TopicPartition>> given = play(name + "." + round, assignor, cluster, group);
      if (round + 1 == rounds || given == null) return;
      generation++;
      List<Member> next = new ArrayList<>();
      for (Member m : group) {
        if (chance(0.15)) continue;
        List<TopicPartition> owned = given.get(m.id);
        int at = generation;
        if (chance(0.1)) { owned = m.owned; at = m.generation; } // it has missed the last one
        if (chance(0.05)) at = -1;
        if (chance(0.07)) { owned = new ArrayList<>(owned); for (List<TopicPartition> other : given.values()) for (TopicPartition tp : other) if (chance(0.1) && !owned.contains(tp)) owned.add(tp); }
        next.add(remember(m, equal || chance(0.8) ? m.topics : pick(names), owned, at, assignor, old));
      }
      group = next;
      for (int n = r.nextInt(chance(0.5) ? 2 : 1 + maxMembers / 2); n > 0 || group.isEmpty(); n--) group.add(join(look, equal ? common : pick(names), statics, racks, rackIds));
      Collections.shuffle(group, r);
      if (chance(0.2)) { String t = one(new ArrayList<>(cluster.keySet())); grow(cluster, t, r.nextInt(4), racks, rackIds, replicas); }
      if (chance(0.1)) { // a topic is deleted; its subscribers do not know yet, or do not care
        cluster.remove(one(new ArrayList<>(cluster.keySet())));
        if (cluster.isEmpty()) return;
      }
    }
  }

  static List<String> pick(List<String> from) {
    List<String> some = new ArrayList<>(from); Collections.shuffle(some, r);
    return new ArrayList<>(some.subList(0, 1 + r.nextInt(some.size())));
  }

  static void grow(Map<String, List<List<String>>> cluster, String topic, int by, boolean racks, List<String> rackIds, int replicas) {
    List<List<String>> partitions = cluster.computeIfAbsent(topic, t -> new ArrayList<>());
    for (int i = 0; i < by; i++) {
      List<String> at = new ArrayList<>();
      if (racks) for (int k = 0; k < replicas; k++) at.add(chance(0.05) ? null : one(rackIds));
      partitions.add(at);
    }
  }

  static Member join(String look, List<String> topics, boolean statics, boolean racks, List<String> rackIds) {
    return new Member(String.format(look, word(3)), statics && chance(0.7) ? "i" + word(3) : null, racks && chance(0.85) ? one(rackIds) : null, shuffled(topics), List.of(), -1, null);
  }

  static <T> List<T> shuffled(List<T> list) { List<T> copy = new ArrayList<>(list); Collections.shuffle(copy, r); return copy; }

  /** What the member says of itself when it joins again: what its assignor puts in the user data, and the fields of the subscription. */
  static Member remember(Member m, List<String> topics, List<TopicPartition> owned, int generation, String assignor, boolean old) {
    ByteBuffer data = null;
    int field = generation;
    if (assignor.equals("sticky")) {
      StickyAssignor s = new StickyAssignor();
      s.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, m.id, Optional.empty()));
      data = s.subscriptionUserData(new HashSet<>(topics));
      if (chance(0.05)) data.limit(data.limit() - 4); // v0: without a generation
      else if (chance(0.03)) data.limit(r.nextInt(data.limit()));
      if (chance(0.3)) field = -1;
      owned = chance(0.1) ? owned : List.of();
    } else if (assignor.equals("cooperative-sticky")) {
      CooperativeStickyAssignor c = new CooperativeStickyAssignor();
      c.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, m.id, Optional.empty()));
      data = c.subscriptionUserData(new HashSet<>(topics));
      if (old) field = -1;
      if (chance(0.03)) data = null;
      else if (chance(0.02)) data.limit(r.nextInt(4));
    }
    return new Member(m.id, m.instance, m.rack, shuffled(topics), owned, field, data);
  }

  static Map<String, List<TopicPartition>> play(String name, String assignor, Map<String, List<List<String>>> cluster, List<Member> group) {
    ConsumerPartitionAssignor by = switch (assignor) { case "range" -> new RangeAssignor(); case "roundrobin" -> new RoundRobinAssignor(); case "sticky" -> new StickyAssignor(); default -> new CooperativeStickyAssignor(); };
    Map<String, Subscription> subscriptions = new HashMap<>();
    List<Member> distinct = new ArrayList<>();
    for (Member m : group) {
      if (subscriptions.containsKey(m.id)) continue;
      distinct.add(m);
      Subscription s = new Subscription(m.topics, m.data == null ? null : m.data.duplicate(), m.owned, m.generation, Optional.ofNullable(m.rack));
      s.setGroupInstanceId(Optional.ofNullable(m.instance));
      subscriptions.put(m.id, s);
    }
    List<PartitionInfo> infos = new ArrayList<>();
    Set<Node> nodes = new HashSet<>();
    int id = 0;
    for (var topic : cluster.entrySet()) {
      int p = 0;
      for (List<String> at : topic.getValue()) {
        Node[] replicas = new Node[at.size()];
        for (int k = 0; k < replicas.length; k++) nodes.add(replicas[k] = new Node(id++, "h", 1, at.get(k)));
        infos.add(new PartitionInfo(topic.getKey(), p++, replicas.length == 0 ? Node.noNode() : replicas[0], replicas, replicas));
      }
    }
    Map<String, List<TopicPartition>> given = null;
    String error = null;
    try {
      given = new HashMap<>();
      for (var e : by.assign(new Cluster("c", nodes, infos, Set.of(), Set.of()), new GroupSubscription(subscriptions)).groupAssignment().entrySet()) given.put(e.getKey(), e.getValue().partitions());
    } catch (RuntimeException e) { given = null; error = e.getClass().getSimpleName(); }
    print(name, assignor, cluster, distinct, given, error);
    return given;
  }

  static void print(String name, String assignor, Map<String, List<List<String>>> cluster, List<Member> group, Map<String, List<TopicPartition>> given, String error) {
    StringBuilder o = new StringBuilder("{\"name\":" + quoted(name) + ",\"assignor\":" + quoted(assignor) + ",\"topics\":{");
    o.append(cluster.entrySet().stream().map(t -> quoted(t.getKey()) + ":" + (t.getValue().stream().allMatch(List::isEmpty) ? "" + t.getValue().size()
      : quoted(t.getValue().stream().map(at -> at.stream().map(rack -> rack == null ? "-" : rack).collect(Collectors.joining(""))).collect(Collectors.joining(" "))))).collect(Collectors.joining(",")));
    o.append("},\"members\":{");
    o.append(group.stream().map(m -> quoted(m.id) + ":{\"topics\":" + quoted(String.join(" ", m.topics))
      + (m.instance == null ? "" : ",\"instance\":" + quoted(m.instance)) + (m.rack == null ? "" : ",\"rack\":" + quoted(m.rack))
      + (m.owned.isEmpty() ? "" : ",\"owned\":" + quoted(runs(m.owned))) + (m.generation < 0 ? "" : ",\"generation\":" + m.generation)
      + (m.data == null ? "" : ",\"data\":" + quoted(hex(m.data))) + "}").collect(Collectors.joining(",")));
    o.append("},");
    if (error != null) o.append("\"error\":" + quoted(error));
    else o.append("\"given\":{" + group.stream().map(m -> quoted(m.id) + ":" + quoted(runs(given.get(m.id)))).collect(Collectors.joining(",")) + "}");
    out.println(o.append("}"));
  }

  /** "t:0,1 u:3": partitions in their order. */
  static String runs(List<TopicPartition> list) {
    StringBuilder o = new StringBuilder(); String last = null;
    for (TopicPartition tp : list) { o.append(tp.topic().equals(last) ? "," : (last == null ? "" : " ") + tp.topic() + ":").append(tp.partition()); last = tp.topic(); }
    return o.toString();
  }

  static String hex(ByteBuffer b) { StringBuilder o = new StringBuilder(); for (int i = b.position(); i < b.limit(); i++) o.append(String.format("%02x", b.get(i))); return o.toString(); }

  static String quoted(String s) {
    StringBuilder q = new StringBuilder("\"");
    for (char c : s.toCharArray()) q.append(c < 0x20 || c > 0x7e || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : "" + c);
    return q.append('"').toString();
  }
}
