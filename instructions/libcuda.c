/* A driver library that does nothing: each function says that it succeeded. Only host functions
 * run, all of them when the host next waits for a stream or an event, or asks. The program of this
 * package runs over it under a profiler, which then counts the instructions of cuda-rt alone. Tests
 * of cuda-rt run over it too: they ask how many calls reached it, and use its two devices. Handles
 * and addresses are numbers that nothing dereferences. */
#include <stddef.h>
#include <stdio.h>

/* The calls so far, printed at the end. */
static unsigned long calls;
unsigned long driver_calls(void) { return calls; }
__attribute__((destructor)) static void print_calls(void) {
    fprintf(stderr, "driver calls: %lu\n", calls);
}

/* The last handle or address that was given out. */
static size_t last = 1 << 20;
static void *next(void) { return (void *)(last += 4096); }

#define SUCCEEDS(name) int name(void) { calls += 1; return 0; }
#define GIVES(name, type, value) int name(type *out) { calls += 1; *out = (value); return 0; }

SUCCEEDS(cuInit)
GIVES(cuDriverGetVersion, int, 13000)
GIVES(cuDeviceGetCount, int, 2)
int cuDeviceGet(int *device, int ordinal) {
    calls += 1;
    *device = ordinal;
    return 0;
}
int cuDeviceGetName(char *name, int length, int device) {
    const char *text = "a device that does nothing";
    calls += 1;
    for (int i = 0; i < length && (i == 0 || text[i - 1]); i++) name[i] = text[i];
    return (void)device, 0;
}
/* 75 and 76 are the compute capability, 9.0. */
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    calls += 1;
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 1024;
    return (void)device, 0;
}
GIVES(cuDeviceTotalMem_v2, size_t, (size_t)1 << 36)
int cuDevicePrimaryCtxRetain(void **context, int device) {
    calls += 1;
    *context = (void *)(size_t)(64 * (device + 1));
    return 0;
}
static __thread void *current = (void *)64;
GIVES(cuCtxGetCurrent, void *, current)
int cuCtxSetCurrent(void *context) {
    calls += 1;
    current = context;
    return 0;
}
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    calls += 1;
    *least = 0;
    *greatest = -5;
    return 0;
}
SUCCEEDS(cuThreadExchangeStreamCaptureMode)
GIVES(cuStreamCreateWithPriority, void *, next())
SUCCEEDS(cuStreamDestroy_v2)
/* The host functions that are to run. */
static struct { void (*run)(void *); void *data; } pending[64];
static int pending_count;
static int run_pending(void) {
    calls += 1;
    while (pending_count > 0) {
        pending_count -= 1;
        pending[pending_count].run(pending[pending_count].data);
    }
    return 0;
}
int cuLaunchHostFunc(void *stream, void (*run)(void *), void *data) {
    calls += 1;
    if (pending_count == 64) return 2;
    pending[pending_count].run = run;
    pending[pending_count].data = data;
    pending_count += 1;
    return (void)stream, 0;
}
int cuStreamSynchronize(void *stream) { return (void)stream, run_pending(); }
int cuStreamQuery(void *stream) { return (void)stream, run_pending(); }
SUCCEEDS(cuStreamWaitEvent)
SUCCEEDS(cuStreamBeginCapture_v2)
int cuStreamEndCapture(void *stream, void **graph) {
    calls += 1;
    *graph = next();
    return (void)stream, 0;
}
int cuStreamIsCapturing(void *stream, int *status) {
    calls += 1;
    *status = 1;
    return (void)stream, 0;
}
int cuStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph,
                              void ***dependencies, size_t *count) {
    static void *node[1];
    calls += 1;
    *status = 1;
    if (id) *id = 1;
    if (graph) *graph = next();
    node[0] = next();
    if (dependencies) *dependencies = node;
    if (count) *count = 1;
    return (void)stream, 0;
}
GIVES(cuEventCreate, void *, next())
SUCCEEDS(cuEventDestroy_v2)
SUCCEEDS(cuEventRecord)
int cuEventQuery(void *event) { return (void)event, run_pending(); }
int cuEventSynchronize(void *event) { return (void)event, run_pending(); }
GIVES(cuEventElapsedTime, float, 1)
int cuMemGetInfo_v2(size_t *available, size_t *total) {
    calls += 1;
    *available = *total = (size_t)1 << 36;
    return 0;
}
GIVES(cuMemPoolCreate, void *, next())
SUCCEEDS(cuMemPoolSetAttribute)
int cuMemPoolGetAttribute(void *pool, int attribute, size_t *value) {
    calls += 1;
    *value = 0;
    return (void)pool, (void)attribute, 0;
}
SUCCEEDS(cuMemPoolSetAccess)
GIVES(cuDeviceCanAccessPeer, int, 0)
SUCCEEDS(cuMemcpyPeerAsync)
SUCCEEDS(cuMemPoolTrimTo)
GIVES(cuMemAllocFromPoolAsync, void *, next())
SUCCEEDS(cuMemFreeAsync)
/* What the host would use is not given out. */
#define REFUSED(name) int name(void) { calls += 1; return 801; }
REFUSED(cuMemAllocManaged)
REFUSED(cuMemHostAlloc)
SUCCEEDS(cuMemFree_v2)
SUCCEEDS(cuMemPrefetchAsync)
SUCCEEDS(cuMemAdvise)
SUCCEEDS(cuMemFreeHost)
SUCCEEDS(cuMemHostRegister_v2)
SUCCEEDS(cuMemHostUnregister)
GIVES(cuMemHostGetDevicePointer_v2, void *, next())
SUCCEEDS(cuMemcpyHtoDAsync_v2)
SUCCEEDS(cuMemcpyDtoHAsync_v2)
SUCCEEDS(cuMemcpyDtoDAsync_v2)
SUCCEEDS(cuMemcpy2DAsync_v2)
SUCCEEDS(cuMemcpy3DAsync_v2)
SUCCEEDS(cuMemsetD8Async)
SUCCEEDS(cuMemsetD16Async)
SUCCEEDS(cuMemsetD32Async)
SUCCEEDS(cuMemsetD2D8Async)
SUCCEEDS(cuMemsetD2D16Async)
SUCCEEDS(cuMemsetD2D32Async)
GIVES(cuModuleLoadDataEx, void *, next())
SUCCEEDS(cuModuleUnload)
GIVES(cuModuleGetFunction, void *, next())
GIVES(cuFuncGetAttribute, int, 0)
SUCCEEDS(cuFuncSetAttribute)
GIVES(cuOccupancyMaxActiveBlocksPerMultiprocessor, int, 1)
int cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads) {
    calls += 1;
    *blocks = 1;
    *threads = 1024;
    return 0;
}
SUCCEEDS(cuLaunchKernel)
GIVES(cuGraphInstantiateWithFlags, void *, next())
SUCCEEDS(cuGraphExecUpdate)
SUCCEEDS(cuGraphExecKernelNodeSetParams)
SUCCEEDS(cuGraphLaunch)
SUCCEEDS(cuGraphDestroy)
SUCCEEDS(cuGraphExecDestroy)
