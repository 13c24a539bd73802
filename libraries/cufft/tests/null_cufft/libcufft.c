/* A cuFFT that does nothing: it writes down its calls, and fails where a test asks for it. The test
 * reads the calls as lines of text. Handles are numbers that nothing dereferences. With
 * WITHOUT_NOTES it does not write them down, so that the caller's instructions are counted. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static char lines[1 << 16];
static size_t length;
static int countdown = -1;
static int failure;

/* The calls since the last question. */
const char *cufft_calls(void) {
    static char answer[sizeof lines];
    memcpy(answer, lines, length);
    answer[length] = 0;
    length = 0;
    return answer;
}

/* Makes the call behind the next `after` calls fail with `status`. */
void cufft_fail(int after, int status) {
    countdown = after;
    failure = status;
}

static int note(const char *format, ...) {
#ifdef WITHOUT_NOTES
    (void)format;
    return 0;
#else
    va_list arguments;
    va_start(arguments, format);
    length += vsnprintf(lines + length, sizeof lines - length - 2, format, arguments);
    va_end(arguments);
    lines[length++] = '\n';
    if (countdown < 0 || countdown-- > 0) return 0;
    return failure;
#endif
}

static int version = 12000;
void cufft_set_version(int number) { version = number; }

static size_t work_bytes = 4096;
void cufft_set_work_bytes(size_t bytes) { work_bytes = bytes; }

int cufftGetVersion(int *out) { return *out = version, 0; }
int cufftCreate(int *out) {
    static int last;
    *out = ++last;
    return note("create %d", last);
}
int cufftDestroy(int plan) { return note("destroy %d", plan); }
int cufftSetAutoAllocation(int plan, int allocates) { return note("auto %d %d", plan, allocates); }
int cufftMakePlanMany64(int plan, int rank, long long *n, long long *inembed, long long istride, long long idist,
                        long long *onembed, long long ostride, long long odist, int type, long long batch,
                        size_t *bytes) {
    char text[256];
    int at = 0;
    long long *arrays[] = {n, inembed, onembed};
    for (int array = 0; array < 3; array++) {
        at += sprintf(text + at, array ? " |" : "");
        for (int i = 0; i < rank; i++) at += sprintf(text + at, " %lld", arrays[array][i]);
        if (array) {
            long long stride = array == 1 ? istride : ostride, distance = array == 1 ? idist : odist;
            at += sprintf(text + at, " stride %lld distance %lld", stride, distance);
        }
    }
    *bytes = work_bytes;
    return note("plan %d type %x rank %d size%s | batch %lld", plan, type, rank, text, batch);
}
int cufftSetStream(int plan, void *stream) { return note("stream %d %zu", plan, (size_t)stream); }
int cufftSetWorkArea(int plan, void *area) { return note("area %d %zu", plan, (size_t)area); }

#define EXEC(name) \
    int cufftExec##name(int plan, void *from, void *to) { \
        return note(#name " %d at %zu %zu", plan, (size_t)from, (size_t)to); \
    }
#define EXEC_BOTH_WAYS(name) \
    int cufftExec##name(int plan, void *from, void *to, int direction) { \
        return note(#name " %d at %zu %zu direction %d", plan, (size_t)from, (size_t)to, direction); \
    }
EXEC_BOTH_WAYS(C2C)
EXEC_BOTH_WAYS(Z2Z)
EXEC(R2C)
EXEC(D2Z)
EXEC(C2R)
EXEC(Z2D)
