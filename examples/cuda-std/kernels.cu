// The kernels of src/kernels.rs, written for another compiler. They have the parameters that
// rustc_codegen_nvvm gives their signatures: a slice is an address and a length. kernels.ptx is the
// output of `nvcc -ptx -arch=compute_80` 13.5 for this file. Its `.version` is lowered to 7.0, so
// that older drivers load it too; it uses nothing newer.
#include <stddef.h>

extern "C" __global__ void axpy(float a, const float *x, size_t x_len, float *y, size_t y_len) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < x_len && i < y_len) y[i] = fmaf(a, x[i], y[i]);
}

extern "C" __global__ void block_sums(const float *x, size_t x_len, float *sums, size_t sums_len) {
    __shared__ float partial[256];
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    partial[threadIdx.x] = i < x_len ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
        __syncthreads();
    }
    if (threadIdx.x == 0 && blockIdx.x < sums_len) sums[blockIdx.x] = partial[0];
}
