import java.util.*;
class MemberOrders {
  public static void main(String[] a) {
    Random r = new Random(1);
    String[] prefixes = {"m", "consumer-", "größe-", "消費者", "\uD83D\uDE00"};
    StringBuilder o = new StringBuilder("[\n");
    for (int n = 1; n <= 60; n++) {
      Map<String, Integer> members = new HashMap<>(); List<String> there = new ArrayList<>(), steps = new ArrayList<>();
      int most = n == 60 ? 400 : n; String prefix = prefixes[n % 5];
      for (int i = 0; i < 2 * most; i++) {
        if (!there.isEmpty() && (there.size() == most || r.nextInt(3) == 0)) {
          String gone = there.remove(r.nextInt(there.size())); members.remove(gone); steps.add("-" + gone);
        } else {
          String id = prefix + Integer.toHexString(r.nextInt(1 << 16));
          if (!members.containsKey(id)) { members.put(id, i); there.add(id); steps.add("+" + id); }
        }
      }
      o.append(" [").append(quoted(steps)).append(",\n  ").append(quoted(members.keySet())).append(n < 60 ? "],\n" : "]\n");
    }
    System.out.print(o.append("]\n"));
  }
  static String quoted(Collection<String> texts) {
    StringJoiner all = new StringJoiner(", ", "[", "]");
    for (String s : texts) {
      StringBuilder q = new StringBuilder();
      for (char c : s.toCharArray()) q.append(c > 0x7e ? String.format("\\u%04x", (int) c) : "" + c);
      all.add("\"" + q + "\"");
    }
    return all.toString();
  }
}
