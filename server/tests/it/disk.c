/* Notes what a process does to the files below BASALT_DISK_ROOT, for disk.rs: which names it makes, which files it
 * writes, and what of it is synced. Fails what the files below BASALT_DISK_FAULTS name. For LD_PRELOAD.
 *
 * A line is "E number path" (a name was made), "W number inode" (a file was written), "S number inode" (a file was
 * synced) or "D number path" (a folder was synced). Numbers count up; what is made or written has the number that was
 * reached after it, what is synced the one before it: so a sync is never said to cover more than it did. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_ulong number;
static int journal = -1;
static const char *root = "", *faults = "";

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("BASALT_DISK_JOURNAL");
    if (getenv("BASALT_DISK_ROOT")) root = getenv("BASALT_DISK_ROOT");
    if (getenv("BASALT_DISK_FAULTS")) faults = getenv("BASALT_DISK_FAULTS");
    if (path) journal = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void note(char kind, unsigned long at, const char *path, unsigned long inode) {
    char line[PATH_MAX + 64];
    int saved = errno;
    int length = path ? snprintf(line, sizeof line, "%c %lu %s\n", kind, at, path)
                      : snprintf(line, sizeof line, "%c %lu %lu\n", kind, at, inode);
    if (journal >= 0 && length > 0) syscall(SYS_write, journal, line, (size_t)length);
    errno = saved;
}

static int is_ours(const char *path) {
    return journal >= 0 && *root && strncmp(path, root, strlen(root)) == 0;
}

static void made(const char *path) {
    if (is_ours(path)) note('E', atomic_fetch_add(&number, 1) + 1, path, 0);
}

/* The path of an open file, if it is ours. */
static int path_of(int fd, char *path) {
    char link[64];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    errno = saved;
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

static int fails(const char *what) {
    char path[PATH_MAX];
    int saved = errno;
    if (!*faults) return 0;
    snprintf(path, sizeof path, "%s/%s", faults, what);
    int there = access(path, F_OK) == 0;
    errno = saved;
    return there;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(flags, rest); \
        va_end(rest); \
        REAL(int, name, const char *, int, ...); \
        int is_new = flags & O_CREAT && access(path, F_OK) != 0; \
        int fd = real(path, flags, mode); \
        if (fd >= 0 && is_new) made(path); \
        return fd; \
    }
OPEN(open)
OPEN(open64)

static void written(int fd) {
    struct stat file;
    char path[PATH_MAX];
    if (fd > 2 && fd != journal && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && path_of(fd, path))
        note('W', atomic_fetch_add(&number, 1) + 1, NULL, file.st_ino);
}

ssize_t write(int fd, const void *bytes, size_t n) {
    REAL(ssize_t, write, int, const void *, size_t);
    ssize_t done = real(fd, bytes, n);
    written(fd);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    ssize_t done = real(fd, parts, n);
    written(fd);
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    ssize_t done = real(fd, bytes, n, at);
    written(fd);
    return done;
}

static int synced(int fd, int (*real)(int)) {
    struct stat file;
    char path[PATH_MAX];
    unsigned long at = atomic_load(&number);
    int ours = fstat(fd, &file) == 0 && path_of(fd, path);
    if (ours && S_ISDIR(file.st_mode) && strstr(path, "_delta_log") && fails("sync")) {
        errno = EIO;
        return -1;
    }
    int done = real(fd);
    if (done == 0 && ours) {
        if (S_ISDIR(file.st_mode)) note('D', at, path, 0);
        else note('S', at, NULL, file.st_ino);
    }
    return done;
}

int fsync(int fd) {
    REAL(int, fsync, int);
    return synced(fd, real);
}

int fdatasync(int fd) {
    REAL(int, fdatasync, int);
    return synced(fd, real);
}

static int linked(int done, const char *to) {
    if (done == 0) made(to);
    return done;
}

int link(const char *from, const char *to) {
    REAL(int, link, const char *, const char *);
    if (is_ours(to) && strstr(to, "_delta_log") && fails("link")) return errno = EIO, -1;
    return linked(real(from, to), to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    if (is_ours(to) && strstr(to, "_delta_log") && fails("link")) return errno = EIO, -1;
    return linked(real(from_folder, from, to_folder, to, flags), to);
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    return linked(real(from, to), to);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    return linked(real(path, mode), path);
}
