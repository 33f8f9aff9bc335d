package watersmeet;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's own classes for files of this machine, but for two calls. Without Hadoop's native library, which pyspark does
 * not bring, they start the program chmod for every file that is created and readlink several times for every rename:
 * 40 to 70 processes for a small batch. Java can do both by itself. What is written, checksums included, is the same.
 */
public final class LocalFiles {
    private static final PosixFilePermission[] FROM_LOWEST_BIT = {
        PosixFilePermission.OTHERS_EXECUTE, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_READ,
        PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_READ,
        PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_READ,
    };

    private LocalFiles() {}

    /** For Hadoop's FileSystem: fs.file.impl. */
    public static final class Checked extends LocalFileSystem {
        public Checked() {
            super(new Raw());
        }
    }

    /** For Hadoop's FileContext, which checkpoints are written through: fs.AbstractFileSystem.file.impl. */
    public static final class CheckedContext extends ChecksumFs {
        public CheckedContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(new RawContext(uri, conf));
        }
    }

    private static final class RawContext extends DelegateToFileSystem {
        RawContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(uri, new Raw(), conf, uri.getScheme(), false);
        }

        @Override
        public int getUriDefaultPort() {
            return -1; // as local files have none
        }

        @Override
        @SuppressWarnings("deprecation") // checksums ask for it
        public FsServerDefaults getServerDefaults() throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        @Override
        public FsServerDefaults getServerDefaults(Path path) throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        @Override
        public boolean isValidName(String name) {
            return true; // what is not, the operating system will say
        }
    }

    private static final class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            int bits = permission.toShort();
            File file = pathToFile(path);
            // The sticky bit is beyond Java, and so are rights on some file systems.
            if (bits >> FROM_LOWEST_BIT.length != 0) {
                super.setPermission(path, permission);
                return;
            }
            try {
                Files.setPosixFilePermissions(file.toPath(), rights(bits));
            } catch (UnsupportedOperationException other) {
                super.setPermission(path, permission);
            }
        }

        @Override
        public FileStatus getFileLinkStatus(Path path) throws IOException {
            boolean link = Files.isSymbolicLink(pathToFile(path).toPath());
            return link ? super.getFileLinkStatus(path) : getFileStatus(path);
        }
    }

    private static Set<PosixFilePermission> rights(int bits) {
        Set<PosixFilePermission> rights = EnumSet.noneOf(PosixFilePermission.class);
        for (int bit = 0; bit < FROM_LOWEST_BIT.length; bit++) {
            if ((bits >> bit & 1) != 0) {
                rights.add(FROM_LOWEST_BIT[bit]);
            }
        }
        return rights;
    }
}
