// The kernels of `main.rs` in CUDA C++, as its programmers write them, and the calls of CUB. Each
// function enqueues one kernel, or one call of CUB, and returns CUDA's error. `a` and `b` are sizes
// in elements.
//
//   nvcc -O3 -std=c++17 -arch=native -shared -Xcompiler -fPIC -o libnvcc.so nvcc.cu
#include <cstddef>
#include <cstdint>

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

#define EXPORT(name) \
  extern "C" int name(cudaStream_t stream, const void* in, const void* in2, void* out, size_t a, size_t b)

static unsigned blocks_of(size_t n, unsigned threads) { return (unsigned)((n + threads - 1) / threads); }

static unsigned multiprocessors() {
  static int count = 0;
  if (!count) cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
  return count;
}

// One element for each thread.

__global__ void scale_kernel(const float* __restrict__ in, float* __restrict__ out, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * factor;
}
EXPORT(nvcc_scale) {
  scale_kernel<<<blocks_of(a, 256), 256, 0, stream>>>((const float*)in, (float*)out, (int)a, 2.0f);
  return cudaGetLastError();
}

__global__ void saxpy_kernel(const float* __restrict__ x, float* __restrict__ y, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i] + y[i];
}
EXPORT(nvcc_saxpy) {
  saxpy_kernel<<<blocks_of(a, 256), 256, 0, stream>>>((const float*)in, (float*)out, (int)a, 0.5f);
  return cudaGetLastError();
}

__global__ void add_kernel(const float* __restrict__ left, const float* __restrict__ right,
                           float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = left[i] + right[i];
}
EXPORT(nvcc_add) {
  add_kernel<<<blocks_of(a, 256), 256, 0, stream>>>((const float*)in, (const float*)in2, (float*)out, (int)a);
  return cudaGetLastError();
}

__global__ void process_kernel(const float* __restrict__ in, float* __restrict__ out, int n, float gain,
                               float offset) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float value = in[i];
#pragma unroll
    for (int step = 0; step < 16; step++) value = fmaf(value, gain, offset);
    out[i] = value;
  }
}
EXPORT(nvcc_process) {
  process_kernel<<<blocks_of(a, 256), 256, 0, stream>>>((const float*)in, (float*)out, (int)a, 1.0f, 0.5f);
  return cudaGetLastError();
}

__global__ void block_sum_kernel(const float* __restrict__ in, float* __restrict__ sums, int n) {
  __shared__ float partial[8];
  int i = blockIdx.x * 256 + threadIdx.x;
  float value = i < n ? in[i] : 0.0f;
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(~0u, value, distance);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    value = threadIdx.x < 8 ? partial[threadIdx.x] : 0.0f;
    for (int distance = 4; distance > 0; distance /= 2) value += __shfl_down_sync(~0u, value, distance);
    if (threadIdx.x == 0) sums[blockIdx.x] = value;
  }
}
EXPORT(nvcc_block_sum) {
  block_sum_kernel<<<blocks_of(a, 256), 256, 0, stream>>>((const float*)in, (float*)out, (int)a);
  return cudaGetLastError();
}

// Transposes. The first is the one of CUDA's samples: a padded tile of 32 x 32.

template <class T>
__global__ void transpose_kernel(const T* __restrict__ in, T* __restrict__ out, int width, int height) {
  __shared__ T tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(size_t)(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (x < height && y + j < width) out[(size_t)(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
template <class T>
static int transpose(cudaStream_t stream, const void* in, void* out, size_t width, size_t height) {
  dim3 grid(blocks_of(width, 32), blocks_of(height, 32)), block(32, 8);
  transpose_kernel<T><<<grid, block, 0, stream>>>((const T*)in, (T*)out, (int)width, (int)height);
  return cudaGetLastError();
}
EXPORT(nvcc_transpose_1) { return transpose<uint8_t>(stream, in, out, a, b); }
EXPORT(nvcc_transpose_2) { return transpose<uint16_t>(stream, in, out, a, b); }
EXPORT(nvcc_transpose_4) { return transpose<float>(stream, in, out, a, b); }
EXPORT(nvcc_transpose_8) { return transpose<double>(stream, in, out, a, b); }
EXPORT(nvcc_transpose_16) { return transpose<float4>(stream, in, out, a, b); }

// 16 bytes at once, for sides that are multiples of 64.
__global__ void __launch_bounds__(256) transpose_wide_kernel(const float* __restrict__ in, float* __restrict__ out,
                                                             int width, int height) {
  __shared__ float tile[64 * 65];
  int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16, bx = blockIdx.x * 64, by = blockIdx.y * 64;
  float4 v[4];
#pragma unroll
  for (int j = 0; j < 4; j++) v[j] = *(const float4*)(in + (size_t)(by + y + j * 16) * width + bx + x);
#pragma unroll
  for (int j = 0; j < 4; j++)
#pragma unroll
    for (int q = 0; q < 4; q++) tile[(y + j * 16) * 65 + x + q] = (&v[j].x)[q];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const float* z = tile + x * 65 + y + j * 16;
    // `__stwb`, because nvcc splits a plain store of these four elements.
    __stwb((float4*)(out + (size_t)(bx + y + j * 16) * height + by + x),
           make_float4(z[0], z[65], z[130], z[195]));
  }
}
EXPORT(nvcc_transpose_wide_4) {
  if (a % 64 || b % 64) return cudaErrorInvalidValue;
  transpose_wide_kernel<<<dim3(a / 64, b / 64), 256, 0, stream>>>((const float*)in, (float*)out, (int)a, (int)b);
  return cudaGetLastError();
}

// Histograms of values below 256. The counts are zeroed by a call of their own, as for ours.

__global__ void __launch_bounds__(256) histogram_kernel(const uint8_t* __restrict__ in, uint32_t* counts, size_t n) {
  __shared__ uint32_t bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (size_t at = blockIdx.x * 256 + threadIdx.x; at < n; at += gridDim.x * 256) atomicAdd(bins + in[at], 1u);
  __syncthreads();
  atomicAdd(counts + threadIdx.x, bins[threadIdx.x]);
}
EXPORT(nvcc_histogram_1) {
  histogram_kernel<<<8 * multiprocessors(), 256, 0, stream>>>((const uint8_t*)in, (uint32_t*)out, a);
  return cudaGetLastError();
}

__global__ void __launch_bounds__(256) histogram_wide_kernel(const uint4* __restrict__ in, uint32_t* counts, size_t n) {
  __shared__ uint32_t tables[8][256];
  for (int j = 0; j < 8; j++) tables[j][threadIdx.x] = 0;
  __syncthreads();
  uint32_t* bins = tables[threadIdx.x / 32];
  for (size_t at = blockIdx.x * 256 + threadIdx.x; at < n; at += gridDim.x * 256) {
    uint4 v = in[at];
#pragma unroll
    for (int q = 0; q < 4; q++)
#pragma unroll
      for (int z = 0; z < 4; z++) atomicAdd(bins + (((&v.x)[q] >> (8 * z)) & 255), 1u);
  }
  __syncthreads();
  uint32_t sum = 0;
  for (int j = 0; j < 8; j++) sum += tables[j][threadIdx.x];
  atomicAdd(counts + threadIdx.x, sum);
}
EXPORT(nvcc_histogram_wide_1) {
  if (a % 16) return cudaErrorInvalidValue;
  histogram_wide_kernel<<<8 * multiprocessors(), 256, 0, stream>>>((const uint4*)in, (uint32_t*)out, a / 16);
  return cudaGetLastError();
}

__global__ void __launch_bounds__(256) histogram_words_kernel(const uint4* __restrict__ in, uint32_t* counts, size_t n) {
  __shared__ uint32_t tables[8][256];
  for (int j = 0; j < 8; j++) tables[j][threadIdx.x] = 0;
  __syncthreads();
  uint32_t* bins = tables[threadIdx.x / 32];
  for (size_t at = blockIdx.x * 256 + threadIdx.x; at < n; at += gridDim.x * 256) {
    uint4 v = in[at];
#pragma unroll
    for (int q = 0; q < 4; q++)
      if ((&v.x)[q] < 256) atomicAdd(bins + (&v.x)[q], 1u);
  }
  __syncthreads();
  uint32_t sum = 0;
  for (int j = 0; j < 8; j++) sum += tables[j][threadIdx.x];
  atomicAdd(counts + threadIdx.x, sum);
}
EXPORT(nvcc_histogram_wide_4) {
  if (a % 4) return cudaErrorInvalidValue;
  histogram_words_kernel<<<8 * multiprocessors(), 256, 0, stream>>>((const uint4*)in, (uint32_t*)out, a / 4);
  return cudaGetLastError();
}

// The sum, with four loads of 16 bytes in flight; the last block adds the blocks' sums.
__device__ unsigned finished;
__device__ float partials[65536];
__device__ __forceinline__ float sum_of_block(float value, float* shared) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < 8; warp++) sum += shared[warp];
  __syncthreads();
  return sum;
}
__global__ void __launch_bounds__(256) sum_kernel(const float4* __restrict__ in, float* out, size_t n) {
  __shared__ float shared[8];
  __shared__ bool is_last;
  float4 sums = make_float4(0, 0, 0, 0);
  size_t at = (size_t)blockIdx.x * 1024 + threadIdx.x;
  for (; at + 768 < n; at += (size_t)gridDim.x * 1024) {
    float4 v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = in[at + k * 256];
#pragma unroll
    for (int k = 0; k < 4; k++) sums.x += v[k].x, sums.y += v[k].y, sums.z += v[k].z, sums.w += v[k].w;
  }
  for (int k = 0; k < 4 && at < n; k++, at += 256) {
    float4 v = in[at];
    sums.x += v.x, sums.y += v.y, sums.z += v.z, sums.w += v.w;
  }
  float sum = sum_of_block(sums.x + sums.y + (sums.z + sums.w), shared);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicAdd(&finished, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  sum = 0.0f;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += 256) sum += __ldcg(partials + block);
  sum = sum_of_block(sum, shared);
  if (threadIdx.x == 0) {
    *out = sum;
    finished = 0;
  }
}
EXPORT(nvcc_sum_f32) {
  if (a % 4) return cudaErrorInvalidValue;
  sum_kernel<<<8 * multiprocessors(), 256, 0, stream>>>((const float4*)in, (float*)out, a / 4);
  return cudaGetLastError();
}

// Rows that a warp or a block holds in registers, of a multiple of four elements, and longer rows.
// `a` is the number of rows, `b` their width. The exponential is the one of CUDA's math library.

template <int THREADS, class Op>
__device__ __forceinline__ float of_row(float value, float* shared, Op op) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value = op(value, __shfl_xor_sync(~0u, value, distance));
  if (THREADS == 32) return value;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float all = shared[0];
#pragma unroll
  for (int warp = 1; warp < 8; warp++) all = op(all, shared[warp]);
  __syncthreads();
  return all;
}
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};
template <int THREADS, int STEPS>
__global__ void __launch_bounds__(256) softmax_kernel(const float4* __restrict__ in, float4* __restrict__ out, int rows,
                                                      int width) {
  __shared__ float shared[8];
  int row = (blockIdx.x * 256 + threadIdx.x) / THREADS, at = threadIdx.x % THREADS;
  if (row >= rows) return;
  in += (size_t)row * width, out += (size_t)row * width;
  float4 v[STEPS];
  float largest = -INFINITY, sum = 0.0f;
#pragma unroll
  for (int k = 0; k < STEPS; k++)
    v[k] = at + k * THREADS < width ? in[at + k * THREADS] : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
#pragma unroll
  for (int k = 0; k < STEPS; k++) largest = fmaxf(largest, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
  largest = of_row<THREADS>(largest, shared, Largest());
#pragma unroll
  for (int k = 0; k < STEPS; k++) {
    v[k] = make_float4(expf(v[k].x - largest), expf(v[k].y - largest), expf(v[k].z - largest), expf(v[k].w - largest));
    sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
  }
  float factor = 1.0f / of_row<THREADS>(sum, shared, Plus());
#pragma unroll
  for (int k = 0; k < STEPS; k++)
    if (at + k * THREADS < width)
      out[at + k * THREADS] = make_float4(v[k].x * factor, v[k].y * factor, v[k].z * factor, v[k].w * factor);
}
__global__ void __launch_bounds__(256) softmax_long_kernel(const float4* __restrict__ in, float4* __restrict__ out,
                                                           int width) {
  __shared__ float shared[8];
  in += (size_t)blockIdx.x * width, out += (size_t)blockIdx.x * width;
  float largest = -INFINITY, sum = 0.0f;
#pragma unroll 4
  for (int at = threadIdx.x; at < width; at += 256) {
    float4 v = in[at];
    float next = fmaxf(largest, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    sum = sum * expf(largest - next) + (expf(v.x - next) + expf(v.y - next)) + (expf(v.z - next) + expf(v.w - next));
    largest = next;
  }
  float of_all = of_row<256>(largest, shared, Largest());
  float factor = 1.0f / of_row<256>(sum * expf(largest - of_all), shared, Plus());
#pragma unroll 4
  for (int at = threadIdx.x; at < width; at += 256) {
    float4 v = in[at];
    out[at] = make_float4(expf(v.x - of_all) * factor, expf(v.y - of_all) * factor, expf(v.z - of_all) * factor,
                          expf(v.w - of_all) * factor);
  }
}
EXPORT(nvcc_softmax) {
  const float4* x = (const float4*)in;
  float4* y = (float4*)out;
  int width = (int)(b / 4), rows = (int)a;
  unsigned blocks = blocks_of(a * 32, 256);
  if (b % 4 || b <= 512) return cudaErrorInvalidValue;
  if (b <= 1024) softmax_kernel<32, 8><<<blocks, 256, 0, stream>>>(x, y, rows, width);
  else if (b <= 2048) softmax_kernel<256, 2><<<rows, 256, 0, stream>>>(x, y, rows, width);
  else if (b <= 4096) softmax_kernel<256, 4><<<rows, 256, 0, stream>>>(x, y, rows, width);
  else if (b <= 8192) softmax_kernel<256, 8><<<rows, 256, 0, stream>>>(x, y, rows, width);
  else softmax_long_kernel<<<rows, 256, 0, stream>>>(x, y, width);
  return cudaGetLastError();
}

template <int THREADS, int STEPS>
__global__ void __launch_bounds__(256)
    layer_norm_kernel(const float4* __restrict__ in, const float4* __restrict__ scale, float4* __restrict__ out, int rows,
                      int width, float epsilon) {
  __shared__ float shared[8];
  int row = (blockIdx.x * 256 + threadIdx.x) / THREADS, at = threadIdx.x % THREADS;
  if (row >= rows) return;
  in += (size_t)row * width, out += (size_t)row * width;
  float4 v[STEPS];
  float sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int k = 0; k < STEPS; k++) {
    v[k] = at + k * THREADS < width ? in[at + k * THREADS] : make_float4(0, 0, 0, 0);
    sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
  }
  float mean = of_row<THREADS>(sum, shared, Plus()) / (4 * width);
#pragma unroll
  for (int k = 0; k < STEPS; k++)
    if (at + k * THREADS < width) {
      v[k] = make_float4(v[k].x - mean, v[k].y - mean, v[k].z - mean, v[k].w - mean);
      squares += (v[k].x * v[k].x + v[k].y * v[k].y) + (v[k].z * v[k].z + v[k].w * v[k].w);
    }
  float factor = rsqrtf(of_row<THREADS>(squares, shared, Plus()) / (4 * width) + epsilon);
#pragma unroll
  for (int k = 0; k < STEPS; k++)
    if (at + k * THREADS < width) {
      float4 w = scale[at + k * THREADS], b = scale[width + at + k * THREADS];
      out[at + k * THREADS] = make_float4(v[k].x * factor * w.x + b.x, v[k].y * factor * w.y + b.y,
                                          v[k].z * factor * w.z + b.z, v[k].w * factor * w.w + b.w);
    }
}
// `in2` has the weights, and behind them the biases.
EXPORT(nvcc_layer_norm) {
  const float4 *x = (const float4*)in, *scale = (const float4*)in2;
  float4* y = (float4*)out;
  int width = (int)(b / 4), rows = (int)a;
  unsigned blocks = blocks_of(a * 32, 256);
  if (b % 4 || b <= 512 || b > 8192) return cudaErrorInvalidValue;
  if (b <= 1024) layer_norm_kernel<32, 8><<<blocks, 256, 0, stream>>>(x, scale, y, rows, width, 1e-5f);
  else if (b <= 2048) layer_norm_kernel<256, 2><<<rows, 256, 0, stream>>>(x, scale, y, rows, width, 1e-5f);
  else if (b <= 4096) layer_norm_kernel<256, 4><<<rows, 256, 0, stream>>>(x, scale, y, rows, width, 1e-5f);
  else layer_norm_kernel<256, 8><<<rows, 256, 0, stream>>>(x, scale, y, rows, width, 1e-5f);
  return cudaGetLastError();
}

// CUB, with its temporary memory allocated before the first measurement.

static void* temporary(size_t bytes) {
  static void* memory = nullptr;
  static size_t size = 0;
  if (bytes > size) {
    cudaDeviceSynchronize();
    cudaFree(memory);
    if (cudaMalloc(&memory, bytes) != cudaSuccess) return nullptr;
    size = bytes;
  }
  return memory;
}
template <class Call>
static int with_temporary(Call call) {
  size_t bytes = 0;
  if (cudaError_t error = call(nullptr, bytes)) return error;
  return call(temporary(bytes), bytes);
}
EXPORT(cub_histogram_1) {
  return with_temporary([&](void* memory, size_t& bytes) {
    return cub::DeviceHistogram::HistogramEven(memory, bytes, (const uint8_t*)in, (int*)out, 257, 0, 256, (int)a, stream);
  });
}
EXPORT(cub_histogram_4) {
  return with_temporary([&](void* memory, size_t& bytes) {
    return cub::DeviceHistogram::HistogramEven(memory, bytes, (const uint32_t*)in, (int*)out, 257, 0u, 256u, (int)a, stream);
  });
}
#define CUB_REDUCE(name, type, operation)                                                              \
  EXPORT(name) {                                                                                       \
    return with_temporary([&](void* memory, size_t& bytes) {                                           \
      return cub::DeviceReduce::operation(memory, bytes, (const type*)in, (type*)out, (int)a, stream); \
    });                                                                                                \
  }
CUB_REDUCE(cub_sum_f32, float, Sum)
CUB_REDUCE(cub_min_f32, float, Min)
CUB_REDUCE(cub_sum_f64, double, Sum)
CUB_REDUCE(cub_sum_u32, uint32_t, Sum)
CUB_REDUCE(cub_max_i32, int32_t, Max)
#define CUB_SCAN(name, type, operation)                                                              \
  EXPORT(name) {                                                                                     \
    return with_temporary([&](void* memory, size_t& bytes) {                                         \
      return cub::DeviceScan::operation(memory, bytes, (const type*)in, (type*)out, (int)a, stream); \
    });                                                                                              \
  }
CUB_SCAN(cub_scan_u32, uint32_t, InclusiveSum)
CUB_SCAN(cub_scan_f32, float, InclusiveSum)
CUB_SCAN(cub_scan_u64, uint64_t, InclusiveSum)
CUB_SCAN(cub_scan_f64, double, InclusiveSum)
CUB_SCAN(cub_exclusive_scan_u32, uint32_t, ExclusiveSum)
struct Larger {
  __device__ int32_t operator()(int32_t a, int32_t b) const { return a > b ? a : b; }
};
EXPORT(cub_scan_max_i32) {
  return with_temporary([&](void* memory, size_t& bytes) {
    return cub::DeviceScan::InclusiveScan(memory, bytes, (const int32_t*)in, (int32_t*)out, Larger(), (int)a, stream);
  });
}
