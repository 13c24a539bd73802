/* A driver library that works on the processor: copies are memcpy, and the kernels `scale` and
 * `add` are loops. Enqueued work runs as late as it may: when the host waits for it, or when other
 * work that the host waits for must come after it. So a missing event shows: data are read before
 * they are written, or are overwritten before they were read. The benchmark runs over this library
 * where there is no GPU, which shows that each way of each program gives the right elements, frees
 * what it takes, and calls the driver with the right arguments. The test adds each other function
 * that driver-cuda declares, as one that fails. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_VALUE = 1, NOT_SUPPORTED = 801 };

#define SUCCEEDS(name) int name(void) { return 0; }
#define GIVES(name, type, value) int name(type *out) { *out = (value); return 0; }

/* What was made and not destroyed; the test reads it at the end. */
static long live;
static void *make(size_t bytes) {
    __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return calloc(1, bytes ? bytes : 1);
}
static int destroy(void *object) {
    if (!object) return INVALID_VALUE;
    __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    free(object);
    return 0;
}

SUCCEEDS(cuInit)
GIVES(cuDriverGetVersion, int, 13000)
GIVES(cuDeviceGetCount, int, 1)
GIVES(cuDeviceGet, int, 0)
int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, length, "the processor, through a driver for tests");
    return (void)device, 0;
}
/* 75 and 76 are the compute capability, 9.0. */
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 1024;
    return (void)device, 0;
}
GIVES(cuDeviceTotalMem_v2, size_t, (size_t)1 << 36)
GIVES(cuDevicePrimaryCtxRetain, void *, (void *)64)
SUCCEEDS(cuDevicePrimaryCtxRelease_v2)
/* No context is current on a thread that set none. */
static __thread void *current;
GIVES(cuCtxGetCurrent, void *, current)
int cuCtxSetCurrent(void *context) {
    current = context;
    return 0;
}
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return 0;
}
SUCCEEDS(cuThreadExchangeStreamCaptureMode)

/* Kernels. A function is 1 for `scale`, 2 for `add`, 3 for all others, which are not launched. */
struct launch { size_t function; uint64_t address[3], len[3], extent[3]; float factor; };
struct graph { struct launch *launches; size_t count; };

/* With WRONG_ELEMENT in the environment, `scale` writes a wrong last element. */
static void run(const struct launch *launch) {
    const float *a = (void *)launch->address[0];
    if (launch->function == 1) {
        float *out = (void *)launch->address[1];
        for (uint64_t i = 0; i < launch->extent[0] && i < launch->len[1]; i++)
            out[i] = a[i] * launch->factor;
        if (getenv("WRONG_ELEMENT")) out[launch->len[1] - 1] += 1;
    } else {
        const float *b = (void *)launch->address[1];
        float *out = (void *)launch->address[2];
        for (uint64_t i = 0; i < launch->extent[0] && i < launch->len[2]; i++) out[i] = a[i] + b[i];
    }
}

/* Enqueued work. */
struct stream;
struct op {
    enum { COPY, SET8, SET32, RUN, WAIT, FREE, HOST } kind;
    void *to;
    const void *from;
    size_t count;
    struct launch launch;
    struct stream *stream;
    void (*function)(void *);
};
/* A stream runs its operations in order. `base` operations are over and forgotten, and `done` of
 * the `count` others are over. It is never freed, as waits may name it. */
struct stream {
    struct graph *capture;
    struct op *ops;
    size_t base, count, done, capacity;
    struct stream *next;
};
struct event { struct stream *stream; size_t position; };

/* Held during each call that looks at streams or events. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;

/* Runs the operations of a stream before `position`. */
static void drain(struct stream *stream, size_t position) {
    while (stream->base + stream->done < position) {
        struct op op = stream->ops[stream->done++];
        switch (op.kind) {
        case COPY: memcpy(op.to, op.from, op.count); break;
        case SET8: memset(op.to, (int)(size_t)op.from, op.count); break;
        case SET32:
            for (size_t i = 0; i < op.count; i++) ((uint32_t *)op.to)[i] = (size_t)op.from;
            break;
        case RUN: run(&op.launch); break;
        case WAIT: drain(op.stream, op.count); break;
        case FREE: destroy(op.to); break;
        case HOST: op.function(op.to); break;
        }
    }
    if (stream->done == stream->count) {
        stream->base += stream->count;
        stream->count = stream->done = 0;
    }
}
static void drain_all(void) {
    for (struct stream *one = streams; one; one = one->next) drain(one, one->base + one->count);
}
__attribute__((destructor)) static void print_live(void) {
    drain_all();
    fprintf(stderr, "objects left: %ld\n", live);
}
/* With the lock held. */
static void append(struct stream *stream, struct op op) {
    if (stream->count == stream->capacity) {
        stream->capacity = 2 * stream->capacity + 16;
        stream->ops = realloc(stream->ops, stream->capacity * sizeof op);
    }
    stream->ops[stream->count++] = op;
}
static int enqueue(struct stream *stream, struct op op) {
    if (!current || !stream) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    append(stream, op);
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, struct stream *stream, void **parameters,
                   void **extra) {
    struct launch launch = {.function = (size_t)function};
    int slices = launch.function == 1 ? 2 : 3;
    if (launch.function != 1 && launch.function != 2) return NOT_SUPPORTED;
    if (!current || !stream || extra || shared || gy != 1 || gz != 1 || by != 1 || bz != 1)
        return INVALID_VALUE;
    for (int i = 0; i < slices; i++) {
        launch.address[i] = *(uint64_t *)parameters[2 * i];
        launch.len[i] = *(uint64_t *)parameters[2 * i + 1];
    }
    if (launch.function == 1) launch.factor = *(float *)parameters[4];
    memcpy(launch.extent, parameters[launch.function == 1 ? 5 : 6], sizeof launch.extent);
    if (launch.extent[1] != 1 || launch.extent[2] != 1 || (uint64_t)gx * bx < launch.extent[0])
        return INVALID_VALUE;
    if (!stream->capture) return enqueue(stream, (struct op){.kind = RUN, .launch = launch});
    struct graph *graph = stream->capture;
    graph->launches = realloc(graph->launches, (graph->count + 1) * sizeof launch);
    graph->launches[graph->count++] = launch;
    return 0;
}

int cuCtxSynchronize(void) {
    pthread_mutex_lock(&lock);
    drain_all();
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuStreamCreate(struct stream **stream, unsigned flags) {
    *stream = calloc(1, sizeof **stream);
    __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    (*stream)->next = streams;
    streams = *stream;
    pthread_mutex_unlock(&lock);
    return (void)flags, 0;
}
int cuStreamCreateWithPriority(struct stream **stream, unsigned flags, int priority) {
    return (void)priority, cuStreamCreate(stream, flags);
}
int cuStreamDestroy_v2(void *stream) {
    __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    return stream ? 0 : INVALID_VALUE;
}
int cuStreamSynchronize(struct stream *stream) {
    pthread_mutex_lock(&lock);
    drain(stream, stream->base + stream->count);
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuStreamQuery(struct stream *stream) { return cuStreamSynchronize(stream); }
int cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
    if (!stream || !event || flags) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (event->stream)
        append(stream, (struct op){
            .kind = WAIT, .stream = event->stream, .count = event->position});
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuLaunchHostFunc(struct stream *stream, void (*function)(void *), void *data) {
    return enqueue(stream, (struct op){.kind = HOST, .function = function, .to = data});
}
int cuStreamBeginCapture_v2(struct stream *stream, int mode) {
    stream->capture = make(sizeof(struct graph));
    return (void)mode, 0;
}
int cuStreamEndCapture(struct stream *stream, struct graph **graph) {
    *graph = stream->capture;
    stream->capture = NULL;
    return 0;
}
int cuStreamIsCapturing(struct stream *stream, int *status) {
    *status = stream->capture != NULL;
    return 0;
}
int cuStreamGetCaptureInfo_v2(struct stream *stream, int *status, unsigned long long *id,
                              void **graph, void ***dependencies, size_t *count) {
    static __thread void *node[1];
    *status = stream->capture != NULL;
    if (!*status) return 0;
    node[0] = (void *)(64 + stream->capture->count);
    if (id) *id = 1;
    if (graph) *graph = stream->capture;
    if (dependencies) *dependencies = node;
    if (count) *count = stream->capture->count != 0;
    return 0;
}

int cuEventCreate(struct event **event, unsigned flags) {
    *event = make(sizeof **event);
    return (void)flags, 0;
}
int cuEventDestroy_v2(void *event) { return destroy(event); }
int cuEventRecord(struct event *event, struct stream *stream) {
    if (!event || !stream) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    *event = (struct event){stream, stream->base + stream->count};
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuEventSynchronize(struct event *event) {
    pthread_mutex_lock(&lock);
    if (event->stream) drain(event->stream, event->position);
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuEventQuery(struct event *event) { return cuEventSynchronize(event); }
GIVES(cuEventElapsedTime, float, 1)

int cuMemGetInfo_v2(size_t *available, size_t *total) {
    *available = *total = (size_t)1 << 36;
    return 0;
}
GIVES(cuMemPoolCreate, void *, (void *)64)
SUCCEEDS(cuMemPoolDestroy)
SUCCEEDS(cuMemPoolSetAttribute)
int cuMemPoolGetAttribute(void *pool, int attribute, size_t *value) {
    *value = 0;
    return (void)pool, (void)attribute, 0;
}
SUCCEEDS(cuMemPoolSetAccess)
GIVES(cuDeviceCanAccessPeer, int, 0)
SUCCEEDS(cuMemPoolTrimTo)
int cuMemAlloc_v2(void **address, size_t bytes) {
    *address = make(bytes);
    return 0;
}
int cuMemAllocAsync(void **address, size_t bytes, void *stream) {
    return (void)stream, cuMemAlloc_v2(address, bytes);
}
int cuMemAllocFromPoolAsync(void **address, size_t bytes, void *pool, void *stream) {
    return (void)pool, (void)stream, cuMemAlloc_v2(address, bytes);
}
int cuMemFreeAsync(void *address, void *stream) {
    return enqueue(stream, (struct op){.kind = FREE, .to = address});
}
int cuMemFree_v2(void *address) { return destroy(address); }
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    return (void)flags, cuMemAlloc_v2(address, bytes);
}
int cuMemFreeHost(void *address) { return destroy(address); }
SUCCEEDS(cuMemHostRegister_v2)
SUCCEEDS(cuMemHostUnregister)
GIVES(cuMemHostGetDevicePointer_v2, void *, NULL)

static int copy(void *to, const void *from, size_t bytes, void *stream) {
    if (!to || !from) return INVALID_VALUE;
    return enqueue(stream, (struct op){.kind = COPY, .to = to, .from = from, .count = bytes});
}
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    return copy(to, from, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    return copy(to, from, bytes, stream);
}
int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    return copy(to, from, bytes, stream);
}
static int set(int kind, void *to, size_t value, size_t count, void *stream) {
    void *from = (void *)value;
    return enqueue(stream, (struct op){.kind = kind, .to = to, .from = from, .count = count});
}
int cuMemsetD8Async(void *to, unsigned char value, size_t count, void *stream) {
    return set(SET8, to, value, count, stream);
}
int cuMemsetD32Async(void *to, uint32_t value, size_t count, void *stream) {
    return set(SET32, to, value, count, stream);
}

GIVES(cuModuleLoadData, void *, (void *)64)
GIVES(cuModuleLoadDataEx, void *, (void *)64)
SUCCEEDS(cuModuleUnload)
int cuModuleGetFunction(void **function, void *module, const char *name) {
    size_t found = !strncmp(name, "scale__", 7) ? 1 : !strncmp(name, "add__", 5) ? 2 : 3;
    *function = (void *)found;
    return (void)module, 0;
}
GIVES(cuFuncGetAttribute, int, 0)
SUCCEEDS(cuFuncSetAttribute)
GIVES(cuOccupancyMaxActiveBlocksPerMultiprocessor, int, 1)
int cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads) {
    *blocks = 1;
    *threads = 1024;
    return 0;
}

/* An executable is a copy of the graph. */
static int instantiate(struct graph **executable, const struct graph *graph) {
    *executable = make(sizeof **executable);
    (*executable)->count = graph->count;
    (*executable)->launches = malloc(graph->count * sizeof *graph->launches);
    memcpy((*executable)->launches, graph->launches, graph->count * sizeof *graph->launches);
    return 0;
}
int cuGraphInstantiateWithFlags(struct graph **executable, struct graph *graph,
                                unsigned long long flags) {
    return (void)flags, instantiate(executable, graph);
}
int cuGraphLaunch(struct graph *executable, void *stream) {
    int status = 0;
    for (size_t i = 0; i < executable->count && !status; i++)
        status = enqueue(stream, (struct op){.kind = RUN, .launch = executable->launches[i]});
    return status;
}
static int forget(struct graph *graph) {
    free(graph->launches);
    return destroy(graph);
}
int cuGraphDestroy(struct graph *graph) { return forget(graph); }
int cuGraphExecDestroy(struct graph *graph) { return forget(graph); }
