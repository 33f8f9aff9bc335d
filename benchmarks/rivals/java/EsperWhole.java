import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Locale;

/**
 * A query of Esper over all rows of a file, several times, each in a new runtime.
 *
 * Arguments: the query, the file (of each row five long: stream, id, k, v, milliseconds), the query's name, the number of
 * runs, the last end of a window that counts, and the slide. What it prints is what peers/protocol.py tells.
 */
public class EsperWhole {
    public record Event(long id, long k, long v) {
        public long getId() {
            return id;
        }

        public long getK() {
            return k;
        }

        public long getV() {
            return v;
        }
    }

    /** Esper calls the `update` that has the columns of an answer. */
    public static class Pairs {
        public void update(long x, long y) {
            add(3 * x + 5 * y);
        }
    }

    public static class Triples {
        public void update(long x, long y, long z) {
            add(3 * x + 5 * y + 7 * z);
        }
    }

    public static class Fours {
        public void update(long x, long y, long z, long w) {
            add(3 * x + 5 * y + 7 * z + 11 * w);
        }
    }

    public static class Groups {
        public void update(long k, long n, Long total) {
            if (n > 0) addWindow(5 * k + 7 * n + 11 * total);
        }
    }

    public static class Keys {
        public void update(long k) {
            addWindow(5 * k);
        }
    }

    public static class Firsts {
        public void update(long id, long v) {
            addWindow(5 * id + 7 * v);
        }
    }

    static long rows, checksum, end, last;

    static void add(long mixed) {
        rows++;
        checksum += mixed % 1_000_003;
    }

    static void addWindow(long mixed) {
        if (end <= last) add(3 * end + mixed);
    }

    public static void main(String[] given) throws Exception {
        String query = given[2];
        int runs = Integer.parseInt(given[3]);
        last = Long.parseLong(given[4]);
        long slide = Long.parseLong(given[5]);
        Object subscriber = switch (query) {
            case "join 2" -> new Pairs();
            case "join 3" -> new Triples();
            case "join 4" -> new Fours();
            case "GROUP BY" -> new Groups();
            case "DISTINCT" -> new Keys();
            default -> new Firsts();
        };
        for (int run = 0; run < runs; run++) {
            rows = checksum = 0;
            long started = System.nanoTime(), processor = processorNs();
            once(given[0], given[1], subscriber, slide, run);
            System.out.printf(Locale.ROOT, "{\"rows\": %d, \"checksum\": %d, \"seconds\": %.4f, \"processor\": %.4f}%n",
                rows, checksum, (System.nanoTime() - started) / 1e9, (processorNs() - processor) / 1e9);
            System.out.flush();
        }
        System.exit(0);
    }

    static void once(String sql, String file, Object subscriber, long slide, int run) throws Exception {
        Configuration settings = new Configuration();
        settings.getRuntime().getThreading().setInternalTimerEnabled(false);
        settings.getCompiler().getByteCode().setAllowSubscriber(true);
        String[] names = {"a", "b", "c", "d"};
        for (String name : names) settings.getCommon().addEventType(name, Event.class);
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(sql, new CompilerArguments(settings));
        EPRuntime runtime = EPRuntimeProvider.getRuntime("run" + run, settings);
        EPEventService service = runtime.getEventService();
        service.advanceTime(0);
        runtime.getDeploymentService().deploy(compiled).getStatements()[0].setSubscriber(subscriber);
        LongBuffer all = ByteBuffer.wrap(Files.readAllBytes(Paths.get(file))).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
        long tick = slide;
        while (all.hasRemaining()) {
            int stream = (int) all.get();
            Event event = new Event(all.get(), all.get(), all.get());
            long at = all.get();
            for (; tick <= at; tick += slide) {
                end = tick / 1_000;
                service.advanceTime(tick);
            }
            service.advanceTime(at);
            service.sendEventBean(event, names[stream]);
        }
        runtime.destroy();
    }

    static long processorNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
