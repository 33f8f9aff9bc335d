import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A source of Spark's whose batches are the rows of one stream that are due when a batch begins.
 *
 * Rows are made in the task, so nothing is waited for but Spark. The first batches bring the rows that warm it up.
 */
public class DueRows implements TableProvider {
    private static final int WARM_BATCHES = 6;
    static volatile Load load;
    static final long[] planned = new long[3];

    public static void open(String keys, int streams, int rate, double warm, double seconds, double grace)
            throws Exception {
        load = new Load(keys, streams, rate, warm, seconds, grace);
        java.util.Arrays.fill(planned, -Load.WARM_ROWS);
    }

    /** Up to which row all streams were read. */
    static long taken() {
        long least = load.rows;
        for (int i = 0; i < load.streams; i++) least = Math.min(least, planned[i]);
        return least;
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return StructType.fromDDL("id BIGINT, k BIGINT, ts TIMESTAMP");
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
        return new Rows(schema);
    }

    private record Rows(StructType schema) implements SupportsRead {
        @Override
        public String name() {
            return "due rows";
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.MICRO_BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            int stream = options.getInt("stream", 0);
            return () -> new Scan() {
                @Override
                public StructType readSchema() {
                    return schema;
                }

                @Override
                public MicroBatchStream toMicroBatchStream(String checkpoint) {
                    return new Stream(stream);
                }
            };
        }
    }

    private static final class UpTo extends Offset {
        final long row;

        UpTo(long row) {
            this.row = row;
        }

        @Override
        public String json() {
            return Long.toString(row);
        }
    }

    private record Part(int stream, long from, long to) implements InputPartition {}

    private static final class Stream implements MicroBatchStream {
        private final int stream;
        private int warmed;
        private long latest = -Load.WARM_ROWS;

        Stream(int stream) {
            this.stream = stream;
        }

        @Override
        public Offset initialOffset() {
            return new UpTo(-Load.WARM_ROWS);
        }

        @Override
        public Offset deserializeOffset(String json) {
            return new UpTo(Long.parseLong(json));
        }

        @Override
        public Offset latestOffset() {
            if (warmed < WARM_BATCHES) {
                warmed++;
                latest = -Load.WARM_ROWS + (long) Load.WARM_ROWS * warmed / WARM_BATCHES;
            } else {
                load.begin();
                if (!load.timeIsUp()) latest = load.due();
            }
            return new UpTo(latest);
        }

        @Override
        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            planned[stream] = ((UpTo) end).row;
            return new InputPartition[] {new Part(stream, ((UpTo) start).row, ((UpTo) end).row)};
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return new Readers();
        }

        @Override
        public void commit(Offset end) {}

        @Override
        public void stop() {}
    }

    public static final class Readers implements PartitionReaderFactory {
        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            return new Reader((Part) partition);
        }
    }

    private static final class Reader implements PartitionReader<InternalRow> {
        private final long to;
        private long row;

        Reader(Part part) {
            to = part.to;
            row = part.from + Math.floorMod(part.stream - part.from, (long) load.streams) - load.streams;
        }

        @Override
        public boolean next() {
            row += load.streams;
            return row < to;
        }

        @Override
        public InternalRow get() {
            return new GenericInternalRow(new Object[] {row, (long) load.key(row), load.dueUs(row)});
        }

        @Override
        public void close() {}
    }
}
