// Reports like checks.py: one JSON line for each check, and one that fails does not stop the next.

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Supplier;

final class Checks {
    static final Duration PATIENCE = Duration.ofSeconds(25);

    interface Work {
        void run() throws Exception;
    }

    private static final Map<String, Work> CHECKS = new LinkedHashMap<>();

    static void check(String name, Work work) {
        CHECKS.put(name, work);
    }

    static void run() {
        CHECKS.forEach((name, work) -> {
            var line = "{\"check\":" + quoted(name) + ",\"problem\":" + quoted(problem(work)) + "}";
            System.out.println(line);
        });
    }

    private static String problem(Work work) {
        try {
            work.run();
            return "";
        } catch (Throwable error) {
            var text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            return text.toString();
        }
    }

    private static String quoted(String text) {
        var quoted = new StringBuilder("\"");
        for (char each : text.toCharArray())
            quoted.append(each < 32 || each == '"' || each == '\\' ? String.format("\\u%04x", (int) each) : each);
        return quoted.append('"').toString();
    }

    static void same(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) throw new AssertionError("found " + found + ", wanted " + wanted);
    }

    static <E extends Throwable> E refused(Class<E> kind, Work work) throws Exception {
        try {
            work.run();
        } catch (Throwable error) {
            if (kind.isInstance(error)) return kind.cast(error);
            throw new AssertionError("another refusal than " + kind, error);
        }
        throw new AssertionError("not refused with " + kind);
    }

    static <T> T eventually(Supplier<T> condition) throws InterruptedException {
        var deadline = Instant.now().plus(PATIENCE);
        while (true) {
            var value = condition.get();
            if (value != null) return value;
            if (Instant.now().isAfter(deadline)) throw new AssertionError("waited " + PATIENCE + " in vain");
            Thread.sleep(50);
        }
    }
}
