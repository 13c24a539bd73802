// The program of the chapter "Coming from", in CUDA C++. No error is checked.
#include <cstdio>

extern "C" __global__ void fill(float *x, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}

extern "C" __global__ void scale(const float *x, float *y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * factor;
}

int main() {
    const int n = 1024;
    const size_t bytes = n * sizeof(float);
    cudaStream_t compute, download;
    cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&download, cudaStreamNonBlocking);
    cudaEvent_t done;
    cudaEventCreateWithFlags(&done, cudaEventDisableTiming);

    float *x, *y, *host;
    cudaMallocAsync(&x, bytes, compute);
    cudaMallocAsync(&y, bytes, compute);
    cudaMallocHost(&host, bytes);
    fill<<<n / 256, 256, 0, compute>>>(x, 1.0f, n);
    scale<<<n / 256, 256, 0, compute>>>(x, y, 2.0f, n);
    cudaEventRecord(done, compute);

    cudaStreamWaitEvent(download, done, 0);
    cudaMemcpyAsync(host, y, bytes, cudaMemcpyDeviceToHost, download);
    cudaStreamSynchronize(download);
    printf("%f\n", host[0]);
    cudaFreeAsync(x, compute);
    cudaFreeAsync(y, download);
}
