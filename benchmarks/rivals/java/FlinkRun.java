import java.util.ArrayList;
import java.util.List;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

/**
 * A query of Flink SQL under an open-loop load, all in this process, with checkpoints on disk.
 *
 * Arguments: the query, those of Load, and a folder. One millisecond of Flink's is one microsecond of the load.
 */
public class FlinkRun {
    static Load load;
    static volatile long taken;
    static final Answers answers = new Answers();

    /** Sends what is due, then says that nothing older will come. */
    public static class Due implements SourceFunction<RowData> {
        @Override
        public void run(SourceContext<RowData> out) {
            for (long row = -Load.WARM_ROWS; row < 0; row++) send(out, row);
            load.begin();
            long sent = 0;
            while (sent < load.rows) {
                long ready = load.next(sent);
                if (ready == sent) return;
                long upTo = Math.min(ready, sent + 1_000);
                synchronized (out.getCheckpointLock()) {
                    for (; sent < upTo; sent++) send(out, sent);
                    out.emitWatermark(new Watermark(time(sent - 1) - 1));
                }
                taken = sent;
            }
        }

        private void send(SourceContext<RowData> out, long row) {
            out.collectWithTimestamp(GenericRowData.of(load.stream(row), row, (long) load.key(row)), time(row));
        }

        /** Warm-up rows are a minute older than the first. */
        private static long time(long row) {
            return 1_000_000_000L + (row < 0 ? row * 100 - 60_000_000L : load.offsetUs(row));
        }

        @Override
        public void cancel() {}
    }

    public static class Noting implements SinkFunction<RowData> {
        @Override
        public void invoke(RowData row, Context context) {
            long newest = row.getLong(0), check = newest;
            if (load.streams == 1) {
                check = row.getLong(3) * (row.getLong(2) + row.getLong(1));
                if (newest == load.rows - 1) return; // its group is left out everywhere
            }
            for (int i = 1; i < load.streams; i++) {
                newest = Math.max(newest, row.getLong(i));
                check *= row.getLong(i);
            }
            if (newest >= 0) answers.add(check, Load.nowUs() - load.dueUs(newest), newest >= load.timedFrom);
        }
    }

    public static void main(String[] given) throws Exception {
        load = new Load(given[1], Integer.parseInt(given[2]), Integer.parseInt(given[3]), Double.parseDouble(given[4]),
            Double.parseDouble(given[5]), Double.parseDouble(given[6]));
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", "1");
        settings.setString("execution.buffer-timeout.interval", "1 ms");
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("table.exec.mini-batch.enabled", "false");
        settings.setString("table.local-time-zone", "UTC");
        settings.setString("state.backend.type", "hashmap");
        settings.setString("execution.checkpointing.interval", "2 s");
        settings.setString("execution.checkpointing.dir", "file://" + given[7] + "/checkpoints");
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        StreamTableEnvironment tables = StreamTableEnvironment.create(flink);
        RowType type = RowType.of(new LogicalType[] {new IntType(), new BigIntType(), new BigIntType()},
            new String[] {"s", "id", "k"});
        DataStream<RowData> rows = flink.addSource(new Due(), "due", InternalTypeInfo.of(type));
        Schema schema = Schema.newBuilder().column("s", DataTypes.INT()).column("id", DataTypes.BIGINT())
            .column("k", DataTypes.BIGINT()).columnByMetadata("ts", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
            .watermark("ts", "SOURCE_WATERMARK()").build();
        tables.createTemporaryView("due", rows, schema);
        for (int i = 0; i < load.streams; i++) {
            tables.executeSql("CREATE TEMPORARY VIEW " + "abc".charAt(i) + " AS SELECT id, k, ts FROM due WHERE s = " + i);
        }
        Table asked = tables.sqlQuery(given[0]);
        DataStream<RowData> found =
            tables.toDataStream(asked, asked.getResolvedSchema().toPhysicalRowDataType().bridgedTo(RowData.class));
        found.addSink(new Noting());
        flink.execute();
        System.out.println(answers.told(taken));
        System.exit(0);
    }
}
