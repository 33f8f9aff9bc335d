import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A sink of Spark's that notes when each answer reaches it, in the task, before the batch is committed.
 *
 * Answers are the ids of joined rows; or key, number, sum and instant of a changed group; or ("latest") key, number, sum
 * and newest id of a group, which answers all rows of that key up to there.
 */
public class NotedAnswers implements TableProvider {
    private enum Kind { ids, changes, latest }

    private static Kind kind;
    private static Answers answers;
    private static long taken;
    private static long[][] idsByKey;
    private static int[] answered; // how many of them

    public static synchronized void open(String what) {
        kind = Kind.valueOf(what);
        answers = new Answers();
        taken = -Load.WARM_ROWS;
        if (kind == Kind.latest) sortByKey(DueRows.load);
    }

    private static void sortByKey(Load load) {
        List<List<Long>> found = new ArrayList<>();
        for (int key = 0; key < 1_000; key++) found.add(new ArrayList<>());
        for (long id = 0; id < load.rows; id++) found.get(load.key(id)).add(id);
        idsByKey = found.stream().map(ids -> ids.stream().mapToLong(id -> id).toArray()).toArray(long[][]::new);
        answered = new int[1_000];
    }

    public static synchronized long taken() {
        return taken;
    }

    public static synchronized String told() {
        return answers.told(Math.max(0, taken));
    }

    private static synchronized void add(Answers more) {
        answers.add(more);
    }

    private static synchronized void committed() {
        taken = DueRows.taken();
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return new StructType();
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
        return new Sink();
    }

    private static final class Sink implements SupportsWrite {
        @Override
        public String name() {
            return "noted answers";
        }

        @Override
        public StructType schema() {
            return new StructType();
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
        }

        @Override
        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            return new Builder();
        }
    }

    private static final class Builder implements SupportsStreamingUpdateAsAppend {
        @Override
        public Write build() {
            return new Write() {
                @Override
                public StreamingWrite toStreaming() {
                    return new Noted();
                }
            };
        }
    }

    private static final class Noted implements StreamingWrite {
        @Override
        public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
            return new Writers();
        }

        @Override
        public void commit(long epoch, WriterCommitMessage[] messages) {
            committed();
        }

        @Override
        public void abort(long epoch, WriterCommitMessage[] messages) {}
    }

    public static final class Writers implements StreamingDataWriterFactory {
        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
            return new Writer();
        }
    }

    private record Done() implements WriterCommitMessage {}

    private static final class Writer implements DataWriter<InternalRow> {
        private final Answers mine = new Answers();
        private final Load load = DueRows.load;

        @Override
        public void write(InternalRow row) {
            long now = Load.nowUs();
            switch (kind) {
                case ids -> ids(row, now);
                case changes -> change(row, now);
                case latest -> latest(row, now);
            }
        }

        private void ids(InternalRow row, long now) {
            long newest = row.getLong(0), check = newest;
            for (int i = 1; i < load.streams; i++) {
                newest = Math.max(newest, row.getLong(i));
                check *= row.getLong(i);
            }
            if (newest >= 0) mine.add(check, now - load.dueUs(newest), newest >= load.timedFrom);
        }

        private void change(InternalRow row, long now) {
            long at = row.getLong(3);
            // The last row's group is left out everywhere.
            if (at >= load.dueUs(0) && at < load.dueUs(load.rows - 1)) {
                mine.add(row.getLong(2) * (row.getLong(1) + row.getLong(0)), now - at, at >= load.dueUs(load.timedFrom));
            }
        }

        private void latest(InternalRow row, long now) {
            int key = (int) row.getLong(0);
            long newest = row.getLong(3);
            long[] ids = idsByKey[key];
            for (; answered[key] < ids.length && ids[answered[key]] <= newest; answered[key]++) {
                long id = ids[answered[key]];
                mine.add(id, now - load.dueUs(id), id >= load.timedFrom);
            }
        }

        @Override
        public WriterCommitMessage commit() {
            add(mine);
            return new Done();
        }

        @Override
        public void abort() {}

        @Override
        public void close() {}
    }
}
