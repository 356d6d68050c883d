/* Moves the wall clock of the process it is preloaded into, and no other clock.
 *
 * The file "wall-clock-shift" in the working directory holds one native 64-bit number: nanoseconds to add to the time
 * of day. It is made here where there is a "server.conf", which only servers under test have beside them. It is mapped,
 * so that a test which writes to it steps the clock between two instructions of the server. What counts monotonic time
 * is left alone.
 *
 * System calls are made directly: the first caller may be an allocator that is not ready yet. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const int64_t none = 0;
static const volatile int64_t *shift = &none;

__attribute__((constructor)) static void map_shift(void) {
    if (access("server.conf", F_OK) != 0) return;
    int file = open("wall-clock-shift", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (lseek(file, 0, SEEK_END) >= (off_t)sizeof none || ftruncate(file, sizeof none) == 0) {
        void *mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED) shift = mapped;
    }
    close(file);
}

static int tells_wall_time(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (failed || !tells_wall_time(clock)) return failed;
    int64_t nanos = time->tv_nsec + *shift % SECOND;
    time->tv_sec += *shift / SECOND;
    if (nanos < 0) nanos += SECOND, time->tv_sec--;
    if (nanos >= SECOND) nanos -= SECOND, time->tv_sec++;
    time->tv_nsec = nanos;
    return 0;
}

int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
