import java.io.Serializable;
import java.util.Locale;

/** How many answers there were, their order-free checksum, and for how long each was waited for. */
public final class Answers implements Serializable {
    // Microseconds up to 0.1 s, then tenths of milliseconds up to 10 s, then hundredths of seconds.
    private static final int FINE = 100_000, MIDDLE = 99_000, COARSE = 10_000;
    private final long[] counts = new long[FINE + MIDDLE + COARSE];
    public long answers, checksum, timed, longestUs;

    public void add(long check, long waitedUs, boolean isTimed) {
        answers++;
        checksum += check;
        if (isTimed) note(waitedUs);
    }

    public void note(long waitedUs) {
        timed++;
        counts[cell(Math.max(0, waitedUs))]++;
        longestUs = Math.max(longestUs, waitedUs);
    }

    public void add(Answers other) {
        answers += other.answers;
        checksum += other.checksum;
        timed += other.timed;
        longestUs = Math.max(longestUs, other.longestUs);
        for (int i = 0; i < counts.length; i++) counts[i] += other.counts[i];
    }

    private static int cell(long us) {
        if (us < 100_000) return (int) us;
        if (us < 10_000_000) return FINE + (int) ((us - 100_000) / 100);
        return FINE + MIDDLE + (int) Math.min(COARSE - 1, (us - 10_000_000) / 10_000);
    }

    private static double ms(int cell) {
        if (cell < FINE) return cell / 1e3;
        if (cell < FINE + MIDDLE) return 100 + (cell - FINE) / 10.0;
        return 10_000 + (cell - FINE - MIDDLE) * 10.0;
    }

    private double percentile(double share) {
        long rank = (long) Math.ceil(timed * share), seen = 0;
        for (int i = 0; i < counts.length; i++) {
            seen += counts[i];
            if (seen >= rank && seen > 0) return ms(i);
        }
        return 0;
    }

    /** One line of JSON; `rows` is how many rows were taken in. */
    public String told(long rows) {
        return String.format(Locale.ROOT,
            "{\"rows\": %d, \"answers\": %d, \"checksum\": %d, \"timed\": %d, \"p50_ms\": %.3f, \"p99_ms\": %.3f, "
                + "\"p99_9_ms\": %.3f, \"max_ms\": %.1f}",
            rows, answers, checksum, timed, percentile(0.5), percentile(0.99), percentile(0.999), longestUs / 1e3);
    }
}
