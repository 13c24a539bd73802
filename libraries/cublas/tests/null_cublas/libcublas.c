/* A cuBLAS that does nothing: it writes down its calls, and fails where a test asks for it. The
 * test reads the calls as lines of text. Handles are numbers that nothing dereferences.
 * With WITHOUT_NOTES it does not write them down, so that the caller's instructions are counted. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static char lines[1 << 16];
static size_t length;
static int countdown = -1;
static int failure;

/* The calls since the last question. */
const char *cublas_calls(void) {
    static char answer[sizeof lines];
    memcpy(answer, lines, length);
    answer[length] = 0;
    length = 0;
    return answer;
}

/* Makes the call behind the next `after` calls fail with `status`. */
void cublas_fail(int after, int status) {
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

typedef void *handle;

static int version = 130000;
void cublas_set_version(int number) { version = number; }

int cublasCreate_v2(handle *out) {
    static size_t last;
    *out = (handle)++last;
    return note("create %zu", last);
}
int cublasDestroy_v2(handle h) { return note("destroy %zu", (size_t)h); }
int cublasGetVersion_v2(handle h, int *out) { return (void)h, *out = version, 0; }
int cublasSetStream_v2(handle h, void *stream) { return note("stream %zu %zu", (size_t)h, (size_t)stream); }
int cublasSetWorkspace_v2(handle h, void *at, size_t bytes) {
    return note("workspace %zu %zu %zu", (size_t)h, (size_t)at, bytes);
}
int cublasSetPointerMode_v2(handle h, int mode) { return note("mode %zu %d", (size_t)h, mode); }

int cublasGemmEx(handle h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int at, int lda,
                 const void *b, int bt, int ldb, const void *beta, void *c, int ct, int ldc, int compute, int algo) {
    return note("gemm %zu op %d%d size %d %d %d at %zu %zu %zu ld %d %d %d types %d %d %d compute %d %d alpha %g beta %g",
                (size_t)h, ta, tb, m, n, k, (size_t)a, (size_t)b, (size_t)c, lda, ldb, ldc, at, bt, ct, compute, algo,
                *(const float *)alpha, *(const float *)beta);
}
int cublasGemmStridedBatchedEx(handle h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int at,
                               int lda, long long sa, const void *b, int bt, int ldb, long long sb, const void *beta,
                               void *c, int ct, int ldc, long long sc, int count, int compute, int algo) {
    return note("strided %zu op %d%d size %d %d %d at %zu %zu %zu ld %d %d %d types %d %d %d compute %d %d alpha %g "
                "beta %g strides %lld %lld %lld count %d",
                (size_t)h, ta, tb, m, n, k, (size_t)a, (size_t)b, (size_t)c, lda, ldb, ldc, at, bt, ct, compute, algo,
                *(const float *)alpha, *(const float *)beta, sa, sb, sc, count);
}
int cublasGemmBatchedEx(handle h, int ta, int tb, int m, int n, int k, const void *alpha, const void *const a[], int at,
                        int lda, const void *const b[], int bt, int ldb, const void *beta, void *const c[], int ct,
                        int ldc, int count, int compute, int algo) {
    return note("list %zu op %d%d size %d %d %d at %zu %zu %zu ld %d %d %d types %d %d %d compute %d %d alpha %g "
                "beta %g count %d",
                (size_t)h, ta, tb, m, n, k, (size_t)a, (size_t)b, (size_t)c, lda, ldb, ldc, at, bt, ct, compute, algo,
                *(const float *)alpha, *(const float *)beta, count);
}

#define REAL(S, type) \
    int cublas##S##gemv_v2(handle h, int t, int m, int n, const type *alpha, const type *a, int lda, const type *x, \
                           int incx, const type *beta, type *y, int incy) { \
        return note("gemv %zu op %d size %d %d at %zu %zu %zu ld %d inc %d %d alpha %g beta %g", (size_t)h, t, m, n, \
                    (size_t)a, (size_t)x, (size_t)y, lda, incx, incy, *alpha, *beta); \
    } \
    int cublas##S##trsm_v2(handle h, int side, int uplo, int t, int diag, int m, int n, const type *alpha, \
                           const type *a, int lda, type *b, int ldb) { \
        return note("trsm %zu side %d uplo %d op %d diag %d size %d %d at %zu %zu ld %d %d alpha %g", (size_t)h, side, \
                    uplo, t, diag, m, n, (size_t)a, (size_t)b, lda, ldb, *alpha); \
    } \
    int cublas##S##axpy_v2(handle h, int n, const type *alpha, const type *x, int incx, type *y, int incy) { \
        return note("axpy %zu size %d at %zu %zu inc %d %d alpha %g", (size_t)h, n, (size_t)x, (size_t)y, incx, incy, \
                    *alpha); \
    } \
    int cublas##S##scal_v2(handle h, int n, const type *alpha, type *x, int incx) { \
        return note("scal %zu size %d at %zu inc %d alpha %g", (size_t)h, n, (size_t)x, incx, *alpha); \
    } \
    int cublas##S##dot_v2(handle h, int n, const type *x, int incx, const type *y, int incy, type *sum) { \
        return note("dot %zu size %d at %zu %zu %zu inc %d %d", (size_t)h, n, (size_t)x, (size_t)y, (size_t)sum, incx, \
                    incy); \
    } \
    int cublas##S##nrm2_v2(handle h, int n, const type *x, int incx, type *norm) { \
        return note("nrm2 %zu size %d at %zu %zu inc %d", (size_t)h, n, (size_t)x, (size_t)norm, incx); \
    }
REAL(S, float)
REAL(D, double)
