import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Runs statements of Flink SQL in this process, the last of which writes until its input ends.
 *
 * Arguments: a folder for checkpoints and the files of the runs, which are run one after the other; each file's
 * statements are divided by empty lines. Prints the seconds of every run.
 */
public class FlinkTopics {
    public static void main(String[] given) throws Exception {
        for (int i = 1; i < given.length; i++) {
            Configuration settings = new Configuration();
            settings.setString("parallelism.default", "2");
            settings.setString("pipeline.object-reuse", "true");
            settings.setString("table.local-time-zone", "UTC");
            settings.setString("state.backend.type", "hashmap");
            settings.setString("execution.checkpointing.interval", "2 s");
            settings.setString("execution.checkpointing.dir", "file://" + given[0] + "/checkpoints");
            TableEnvironment tables = TableEnvironment.create(
                EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
            long began = System.nanoTime();
            try {
                String[] statements = Files.readString(Path.of(given[i])).split("\n\n");
                for (int s = 0; s < statements.length - 1; s++) tables.executeSql(statements[s]);
                tables.executeSql(statements[statements.length - 1]).await();
                System.out.println("{\"seconds\": " + (System.nanoTime() - began) / 1e9 + "}");
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) cause = cause.getCause();
                String told = String.valueOf(cause).split("\n")[0].replace('"', '\'').replace('\\', '/');
                System.out.println("{\"failed\": \"" + told + "\"}");
            }
            System.out.flush();
        }
        System.exit(0);
    }
}
