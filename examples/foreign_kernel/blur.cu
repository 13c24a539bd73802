// The mean of each pixel and its neighbours, at most RADIUS to each side in its row.
#include "pixel.h"

extern "C" __global__ void blur(const Pixel *input, Pixel *output, unsigned pixels, unsigned width) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= pixels) {
        return;
    }
    unsigned column = at % width;
    unsigned first = column < RADIUS ? 0 : column - RADIUS;
    unsigned last = column + RADIUS < width ? column + RADIUS : width - 1;
    float sum = 0.0f;
    for (unsigned x = first; x <= last; ++x) {
        sum += input[at - column + x];
    }
    output[at] = sum / (last - first + 1);
}
