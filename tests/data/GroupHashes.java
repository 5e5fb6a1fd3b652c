import java.io.*; import java.nio.charset.StandardCharsets; import java.util.*;
import org.apache.kafka.common.utils.Utils;
class GroupHashes {
  public static void main(String[] a) throws Exception {
    Set<String> ids = new LinkedHashSet<>(List.of("", "polygenelubricants", "a", "group", "größe", "グループ", "\uD83D\uDE00", "x\uD83D\uDE00y", "\uFFFF", "\u0000"));
    Random r = new Random(1);
    String[] alphabets = {"abcdefghijklmnopqrstuvwxyz0123456789-_.", "äöüßéèñçøåœ€", "группапотребитель", "消費者グループ그룹", "\uD83D\uDE00"};
    while (ids.size() < 1000) {
      StringBuilder b = new StringBuilder(); int n = 1 + r.nextInt(40); int kind = r.nextInt(6);
      for (int i = 0; i < n; i++) {
        int k = kind == 5 ? r.nextInt(5) : kind;
        if (k == 4) b.appendCodePoint(0x1F300 + r.nextInt(0x300)); else b.append(alphabets[k].charAt(r.nextInt(alphabets[k].length())));
      }
      ids.add(b.toString());
    }
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    StringBuilder o = new StringBuilder("[\n"); int i = 0;
    for (String s : ids) {
      StringBuilder q = new StringBuilder();
      for (char c : s.toCharArray()) q.append(c < 0x20 || c > 0x7e || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : "" + c);
      o.append(" [\"").append(q).append("\", ").append(s.hashCode()).append(", ").append(Utils.abs(s.hashCode()) % 50).append(++i < ids.size() ? "],\n" : "]\n");
    }
    out.print(o.append("]\n"));
  }
}
