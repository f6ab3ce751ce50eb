/* Stands between a process and its files below BASALT_DISK_ROOT, for mod.rs: notes what it does to them, fails or delays
 * calls, ends the process at one, and sets its clocks ahead. For LD_PRELOAD.
 *
 * What it is to do stands in the file BASALT_DISK_ORDERS, which is `struct orders` and may change at any time.
 *
 * A line of BASALT_DISK_JOURNAL is "C call path" (a call begins), "E number path" (a name was made), "U number path kept"
 * (a name was removed or replaced, and what it named is kept), "W number inode" (a file was written), "S number inode" (a
 * file was synced) or "D number path" (a folder was synced). Numbers count up, through all processes of one file of
 * orders; what is made, removed or written has the number that was reached after it, what is synced the one before it: so
 * a sync is never said to cover more than it did. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum call { ANY, MAKE, WRITE, SYNC, NAME, REMOVE, FOLDER, OPEN, READ };
enum moment { NEVER, BEFORE, MIDDLE, AFTER };

struct fault {
    _Atomic int64_t call, error, delay; /* a call, an errno or 0, milliseconds */
    char paths[104];                    /* a pattern of the shell */
};

struct orders {
    _Atomic int64_t number;
    _Atomic int64_t ahead; /* seconds by which clocks are ahead */
    _Atomic int64_t ending; /* the moment of the call at which the process ends */
    _Atomic int64_t left;   /* how many such calls there are still to come */
    struct fault end;       /* which calls */
    struct fault faults[4];
};

static struct orders none, *orders = &none;
static int journal = -1;
static const char *root = "";

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("BASALT_DISK_JOURNAL"), *file = getenv("BASALT_DISK_ORDERS");
    if (getenv("BASALT_DISK_ROOT")) root = getenv("BASALT_DISK_ROOT");
    if (path) journal = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int fd = file ? syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (at != MAP_FAILED) orders = at;
}

static unsigned long next(void) { return atomic_fetch_add(&orders->number, 1) + 1; }

static void note(char kind, unsigned long at, const char *path, unsigned long inode) {
    char line[2 * PATH_MAX + 64];
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
    if (is_ours(path)) note('E', next(), path, 0);
}

/* The path of an open file, if it is ours. */
static int path_of(int fd, char *path) {
    char link[64];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = fd > 2 && fd != journal ? readlink(link, path, PATH_MAX - 1) : -1;
    errno = saved;
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

static int is_meant(struct fault *fault, enum call call, const char *path) {
    int64_t of = atomic_load(&fault->call);
    return of == call && fnmatch(fault->paths, path, 0) == 0;
}

static void end(enum moment moment) {
    if (atomic_load(&orders->ending) == moment) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
}

/* A call begins. What it returns is 0, or the error with which the call fails; `*last` says whether the process ends at
 * this call. */
static int begin(enum call call, const char *path, int *last) {
    *last = 0;
    if (!is_ours(path)) return 0;
    note('C', call, path, 0);
    if (atomic_load(&orders->ending) && is_meant(&orders->end, call, path)) {
        *last = atomic_fetch_sub(&orders->left, 1) == 1;
        if (*last) end(BEFORE);
    }
    for (int i = 0; i < 4; i++) {
        struct fault *fault = &orders->faults[i];
        if (!is_meant(fault, call, path)) continue;
        int64_t delay = atomic_load(&fault->delay);
        struct timespec time = {delay / 1000, delay % 1000 * 1000000};
        if (delay) syscall(SYS_nanosleep, &time, NULL);
        return (int)atomic_load(&fault->error);
    }
    return 0;
}

#define BEGIN(call, path, failed) \
    int last, error = begin(call, path, &last); \
    if (error) return errno = error, failed

#define END() do { if (last) end(AFTER); } while (0)

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN_AS(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(flags, rest); \
        va_end(rest); \
        REAL(int, name, const char *, int, ...); \
        int is_new = flags & O_CREAT && access(path, F_OK) != 0; \
        BEGIN(is_new ? MAKE : OPEN, path, -1); \
        int fd = real(path, flags, mode); \
        if (fd >= 0 && is_new) made(path); \
        END(); \
        return fd; \
    }
OPEN_AS(open)
OPEN_AS(open64)

static void written(int fd) {
    struct stat file;
    int saved = errno;
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) note('W', next(), NULL, file.st_ino);
    errno = saved;
}

/* Half of it gets there. */
static void write_half(int fd, const void *bytes, size_t n) {
    if (atomic_load(&orders->ending) != MIDDLE) return;
    syscall(SYS_write, fd, bytes, n / 2);
    written(fd);
    end(MIDDLE);
}

ssize_t write(int fd, const void *bytes, size_t n) {
    REAL(ssize_t, write, int, const void *, size_t);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, bytes, n);
    BEGIN(WRITE, path, -1);
    if (last) write_half(fd, bytes, n);
    ssize_t done = real(fd, bytes, n);
    written(fd);
    END();
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, parts, n);
    BEGIN(WRITE, path, -1);
    if (last && n > 0) write_half(fd, parts[0].iov_base, parts[0].iov_len);
    ssize_t done = real(fd, parts, n);
    written(fd);
    END();
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, bytes, n, at);
    BEGIN(WRITE, path, -1);
    ssize_t done = real(fd, bytes, n, at);
    written(fd);
    END();
    return done;
}

ssize_t read(int fd, void *bytes, size_t n) {
    REAL(ssize_t, read, int, void *, size_t);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, bytes, n);
    BEGIN(READ, path, -1);
    ssize_t done = real(fd, bytes, n);
    END();
    return done;
}

ssize_t pread64(int fd, void *bytes, size_t n, off64_t at) {
    REAL(ssize_t, pread64, int, void *, size_t, off64_t);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, bytes, n, at);
    BEGIN(READ, path, -1);
    ssize_t done = real(fd, bytes, n, at);
    END();
    return done;
}

static int synced(int fd, int (*real)(int)) {
    struct stat file;
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd);
    BEGIN(SYNC, path, -1);
    unsigned long at = atomic_load(&orders->number);
    int done = real(fd);
    if (done == 0 && fstat(fd, &file) == 0) {
        if (S_ISDIR(file.st_mode)) note('D', at, path, 0);
        else note('S', at, NULL, file.st_ino);
    }
    END();
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

/* Keeps what a name names that is about to go, under a name beside the journal; "" if there is none. */
static void keep(const char *path, char *kept) {
    const char *file = getenv("BASALT_DISK_JOURNAL");
    int saved = errno;
    *kept = 0;
    if (is_ours(path) && file) {
        snprintf(kept, PATH_MAX, "%s.kept.%lu", file, next());
        if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, kept, 0) != 0) *kept = 0;
    }
    errno = saved;
}

static void removed(const char *path, const char *kept) {
    char both[2 * PATH_MAX];
    if (!*kept) return;
    snprintf(both, sizeof both, "%s %s", path, kept);
    note('U', next(), both, 0);
}

int link(const char *from, const char *to) {
    REAL(int, link, const char *, const char *);
    BEGIN(NAME, to, -1);
    int done = real(from, to);
    if (done == 0) made(to);
    END();
    return done;
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    BEGIN(NAME, to, -1);
    int done = real(from_folder, from, to_folder, to, flags);
    if (done == 0) made(to);
    END();
    return done;
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    char kept[PATH_MAX];
    BEGIN(NAME, to, -1);
    keep(to, kept);
    int done = real(from, to);
    if (done == 0) made(to), removed(to, kept);
    END();
    return done;
}

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    char kept[PATH_MAX];
    BEGIN(REMOVE, path, -1);
    keep(path, kept);
    int done = real(path);
    if (done == 0) removed(path, kept);
    END();
    return done;
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    BEGIN(FOLDER, path, -1);
    int done = real(path, mode);
    if (done == 0) made(path);
    END();
    return done;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    REAL(int, clock_gettime, clockid_t, struct timespec *);
    int done = real(clock, time);
    int runs = clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME;
    if (done == 0 && runs) time->tv_sec += atomic_load(&orders->ahead);
    return done;
}
