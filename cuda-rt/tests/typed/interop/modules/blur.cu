struct P { float a; double b; char c; };
extern "C" __global__ void blur(const float* input, float* output, unsigned width, short s, P p) { unsigned i = blockIdx.x*blockDim.x+threadIdx.x; if (i<width) output[i]=input[i]*p.a+s; }
extern "C" __global__ void none() {}
__device__ __noinline__ float f(float x){return x*x;}
extern "C" __global__ void sq(float* y){ y[0]=f(y[1]); }
