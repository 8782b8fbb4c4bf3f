// Kernels with one fault each, and a sound one: the tests of the tests.
#include "block.cuh"

extern "C" __global__ void sound(const float* x, float* out) {
    __shared__ float held[64];
    held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = held[63 - threadIdx.x];
}

extern "C" __global__ void missing_barrier(const float* x, float* out) {
    __shared__ float held[64];
    held[threadIdx.x] = x[threadIdx.x];
    out[threadIdx.x] = held[63 - threadIdx.x];
}

extern "C" __global__ void divergent_barrier(const float* x, float* out) {
    if (threadIdx.x < 40) __syncthreads();
    out[threadIdx.x] = x[threadIdx.x];
}

extern "C" __global__ void two_barriers(const float* x, float* out) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = x[threadIdx.x];
}

extern "C" __global__ void partial_shuffle(const float* x, float* out) {
    float v = x[threadIdx.x];
    if (threadIdx.x % 32 < 16) v += __shfl_xor_sync(FULL_WARP, v, 1);
    out[threadIdx.x] = v;
}

extern "C" __global__ void partial_mask(const float* x, float* out) {
    out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, x[threadIdx.x], 1);
}

extern "C" __global__ void out_of_bounds(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x + 1]; }

extern "C" __global__ void out_of_shared(const float* x, float* out) {
    __shared__ float held[64];
    float* beyond = held + (x[0] > 0.0f ? 1 : 0);
    beyond[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = held[threadIdx.x];
}

extern "C" __global__ void misaligned(const float* x, float* out) {
    uint4 bits = *(const uint4*)(x + 1);
    out[threadIdx.x] = __uint_as_float(bits.x);
}

extern "C" __global__ void race(const float* x, float* out) { out[0] = x[threadIdx.x]; }

// What one block leaves in shared memory, the next must not find.
extern "C" __global__ void left_over(const float* x, float* out) {
    __shared__ float held[64];
    if (blockIdx.x == 0) held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = held[threadIdx.x];
}
