import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Which rows there are and when each is due: row i belongs to stream i mod streams, and has the i-th key of a file.
 *
 * Rows below zero come first, as fast as they are taken, a minute older than the others: they warm an engine up.
 */
public final class Load implements Serializable {
    public static final int WARM_ROWS = 20_000;
    private static final long TICK_NS = 500_000; // how often a sender looks which rows are due
    private static final long WALL_US = System.currentTimeMillis() * 1_000, NANOS = System.nanoTime();

    public final int streams, rate;
    public final long rows, timedFrom;
    private final double graceS;
    private final int[] keys;
    private volatile long startUs;
    private final long warmUs = nowUs() - 60_000_000;

    public Load(String keyFile, int streams, int rate, double warm, double seconds, double grace) throws IOException {
        this.streams = streams;
        this.rate = rate;
        this.rows = (long) (rate * (warm + seconds));
        this.timedFrom = (long) (rate * warm);
        this.graceS = grace;
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(keyFile))).order(ByteOrder.LITTLE_ENDIAN);
        this.keys = new int[(int) rows];
        bytes.asIntBuffer().get(keys);
    }

    public static long nowUs() {
        return WALL_US + (System.nanoTime() - NANOS) / 1_000;
    }

    /** The first row is due now, unless it was before. */
    public synchronized void begin() {
        if (startUs == 0) startUs = nowUs();
    }

    public int key(long row) {
        return row < 0 ? (int) (-row % 1_000) : keys[(int) row];
    }

    public int stream(long row) {
        return (int) Math.floorMod(row, (long) streams);
    }

    /** Since the first row was due. */
    public long offsetUs(long row) {
        return row < 0 ? warmUs - startUs + (row + WARM_ROWS) * 100 : (long) (row * (1e6 / rate));
    }

    public long dueUs(long row) {
        return row < 0 ? warmUs + (row + WARM_ROWS) * 100 : startUs + offsetUs(row);
    }

    /** How many rows are due by now. */
    public long due() {
        long passed = nowUs() - startUs, guess = (long) (passed * (rate / 1e6));
        while (guess < rows && offsetUs(guess) <= passed) guess++;
        return Math.min(guess, rows);
    }

    public boolean timeIsUp() {
        return nowUs() > dueUs(rows) + (long) (graceS * 1e6);
    }

    /** Waits until rows beyond these are due; what is due now, or these again if time is up. */
    public long next(long sent) {
        while (true) {
            if (timeIsUp()) return sent;
            long ready = due();
            if (ready > sent) return ready;
            java.util.concurrent.locks.LockSupport.parkNanos(TICK_NS);
        }
    }
}
