import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.util.concurrent.TimeUnit;

/**
 * A query of Esper under an open-loop load, in the thread that sends the rows.
 *
 * Arguments: the query, then those of Load. Esper's clock follows the event times, in microseconds.
 */
public class EsperRun {
    public static class Event {
        private final long id, k;

        public Event(long id, long k) {
            this.id = id;
            this.k = k;
        }

        public long getId() {
            return id;
        }

        public long getK() {
            return k;
        }
    }

    /** Esper calls `update` with the columns of an answer; which one, it finds by their number and types. */
    public static class Pairs {
        public void update(long x, long y) {
            answer(x * y, Math.max(x, y));
        }
    }

    public static class Triples {
        public void update(long x, long y, long z) {
            answer(x * y * z, Math.max(Math.max(x, y), z));
        }
    }

    public static class Groups {
        public void update(long k, long n, Long total) {
            if (n > 0 && !arrivedLast) answer(total * (n + k), current);
        }
    }

    static Load load;
    static long current;
    static boolean arrivedLast; // its group is left out everywhere
    static final Answers answers = new Answers();

    static void answer(long check, long newest) {
        if (newest >= 0) answers.add(check, Load.nowUs() - load.dueUs(newest), newest >= load.timedFrom);
    }

    public static void main(String[] given) throws Exception {
        Configuration settings = new Configuration();
        settings.getCommon().getTimeSource().setTimeUnit(TimeUnit.MICROSECONDS);
        settings.getRuntime().getThreading().setInternalTimerEnabled(false);
        settings.getCompiler().getByteCode().setAllowSubscriber(true);
        for (String name : "abc".split("")) settings.getCommon().addEventType(name, Event.class);
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(given[0], new CompilerArguments(settings));
        EPRuntime runtime = EPRuntimeProvider.getRuntime("latency", settings);
        EPEventService service = runtime.getEventService();
        load = new Load(given[1], Integer.parseInt(given[2]), Integer.parseInt(given[3]), Double.parseDouble(given[4]),
            Double.parseDouble(given[5]), Double.parseDouble(given[6]));
        service.advanceTime(load.dueUs(-Load.WARM_ROWS));
        runtime.getDeploymentService().deploy(compiled).getStatements()[0].setSubscriber(
            load.streams == 1 ? new Groups() : load.streams == 2 ? new Pairs() : new Triples());
        for (long row = -Load.WARM_ROWS; row < 0; row++) send(service, row);
        load.begin();
        long sent = 0;
        while (sent < load.rows) {
            long ready = load.next(sent);
            if (ready == sent) break;
            // One by one: if time is up meanwhile, the rest of a backlog is not sent.
            long upTo = Math.min(ready, sent + 1_000);
            for (; sent < upTo; sent++) send(service, sent);
        }
        System.out.println(answers.told(sent));
        System.exit(0);
    }

    static void send(EPEventService service, long row) {
        current = row;
        service.advanceTime(load.dueUs(row));
        arrivedLast = row == load.rows - 1;
        service.sendEventBean(new Event(row, load.key(row)), NAMES[load.stream(row)]);
    }

    private static final String[] NAMES = {"a", "b", "c"};
}
