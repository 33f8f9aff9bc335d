import java.io.*;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.nio.file.*;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.*;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.*;
import org.apache.flink.table.api.*;
import org.apache.flink.types.*;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs queries of Flink SQL in this process, each several times, and prints what each run took.
 *
 * Arguments: a folder with setup.sql and a file for each query, the parallelism, the number of runs, and settings as
 * key=value. Results are counted once, which warms Java up, and then go to Flink's blackhole.
 */
public class Nexmark {
    public static void main(String[] given) throws Exception {
        Path folder = Paths.get(given[0]);
        int runs = Integer.parseInt(given[2]);
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", given[1]);
        for (int i = 3; i < given.length; i++) {
            String[] pair = given[i].split("=", 2);
            settings.setString(pair[0], pair[1]);
        }
        // One cluster for all jobs, so that its start is no part of what a query takes.
        Configuration own = new Configuration(settings);
        own.setString("rest.port", "0");
        MiniCluster cluster = new MiniCluster(
            new MiniClusterConfiguration.Builder().setConfiguration(own).setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(2).build());
        cluster.start();
        URI rest = cluster.getRestAddress().get();
        settings.setString("rest.address", rest.getHost());
        settings.setString("rest.port", String.valueOf(rest.getPort()));
        settings.setString("execution.target", "remote");
        TableEnvironment tables = TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
        for (String statement : Files.readString(folder.resolve("setup.sql")).split(";")) {
            if (!statement.isBlank()) tables.executeSql(statement);
        }
        File[] queries = folder.toFile().listFiles((dir, name) -> name.startsWith("q"));
        Arrays.sort(queries);
        for (File query : queries) {
            String name = query.getName().replace(".sql", "");
            try {
                String sql = Files.readString(query.toPath());
                count(tables, name, sql);
                for (int run = 0; run < runs; run++) measure(tables, name, sql);
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) cause = cause.getCause();
                String told = String.valueOf(cause.getMessage()).split("\n")[0].replace('"', '\'').replace('\\', '/');
                System.out.printf("{\"query\": \"%s\", \"error\": \"%s\"}%n", name, told);
            }
            System.out.flush();
        }
        cluster.close();
    }

    static void measure(TableEnvironment tables, String name, String sql) throws Exception {
        long processor = processorNs(), started = System.nanoTime();
        tables.sqlQuery(sql).executeInsert(TableDescriptor.forConnector("blackhole").build()).await();
        System.out.printf(Locale.ROOT, "{\"query\": \"%s\", \"seconds\": %.4f, \"processor\": %.4f}%n", name,
            (System.nanoTime() - started) / 1e9, (processorNs() - processor) / 1e9);
    }

    /** How many rows the answer has at the end, and how many changes made it. */
    static void count(TableEnvironment tables, String name, String sql) throws Exception {
        long rows = 0, changes = 0, checksum = 0;
        try (CloseableIterator<Row> found = tables.sqlQuery(sql).execute().collect()) {
            while (found.hasNext()) {
                Row row = found.next();
                if (late(row)) continue;
                int sign = row.getKind() == RowKind.INSERT || row.getKind() == RowKind.UPDATE_AFTER ? 1 : -1;
                rows += sign;
                checksum += sign * mixed(row);
                changes++;
            }
        }
        System.out.printf("{\"query\": \"%s\", \"rows\": %d, \"changes\": %d, \"checksum\": %d}%n", name, rows,
            changes, checksum);
    }

    static final long LAST = Long.getLong("last", Long.MAX_VALUE);

    /** Windows that end later are left out; only rows that begin with a time are asked. */
    static boolean late(Row row) {
        return row.getField(0) instanceof LocalDateTime end && end.toEpochSecond(ZoneOffset.UTC) > LAST;
    }

    /** A row as one number, as benchmarks/rivals/peers/protocol.py makes it. */
    static long mixed(Row row) {
        int[] weights = {3, 5, 7, 11};
        long sum = 0;
        for (int i = 0; i < Math.min(row.getArity(), weights.length); i++) {
            Object value = row.getField(i);
            if (value instanceof LocalDateTime time) sum += weights[i] * time.toEpochSecond(ZoneOffset.UTC);
            else if (value instanceof Number number) sum += weights[i] * number.longValue();
        }
        return sum % 1_000_003;
    }

    static long processorNs() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }
}
