// What the kernels share: 16-byte loads, the running sums of a softmax, reductions over a block.
//
// One row belongs to one block. Thread t takes the groups t, t + blockDim, ... of 16 bytes each, so the order of every
// sum depends on the length of the row and on nothing else: a row that starts off a 16-byte boundary is read element by
// element in the same order, and gives the same bits.
#pragma once

typedef unsigned short bf16;  // the upper half of a float

#define FULL_WARP 0xffffffffu
#define LARGEST_BLOCK 256
#define LN2 0.69314718055994530942f
#define AHEAD 4  // groups that a thread has in flight: 256 threads x 64 bytes x 4 blocks on an SM hide the memory's latency

static __device__ __forceinline__ float negative_infinity() { return __uint_as_float(0xff800000u); }
static __device__ __forceinline__ float not_a_number() { return __uint_as_float(0x7fc00000u); }

static __device__ __forceinline__ float to_float(float x) { return x; }
static __device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float((unsigned)x << 16); }

static __device__ __forceinline__ void put(float& to, float x) { to = x; }
static __device__ __forceinline__ void put(bf16& to, float x) {  // to nearest, ties to even; NaN stays NaN
    unsigned bits = __float_as_uint(x);
    to = (bf16)(x != x ? (bits >> 16 | 0x40u) : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <typename T>
struct Group {  // 16 bytes of a row
    static const int size = 16 / sizeof(T);
    union Raw {
        uint4 bits;
        T item[size];
    };
};

static __device__ __forceinline__ bool on_16_bytes(const void* p) { return ((unsigned long long)p & 15u) == 0; }

// Groups in a row of n elements; the last may be short.
template <typename T>
static __device__ __forceinline__ int groups_in(int n) {
    return (n + Group<T>::size - 1) / Group<T>::size;
}

// Read group g of a row of n elements; what lies beyond the row reads as -inf, which adds nothing to any sum.
template <typename T>
static __device__ __forceinline__ void load(const T* row, int g, int n, bool aligned, float (&v)[Group<T>::size]) {
    const int size = Group<T>::size, first = g * size;
    if (aligned && first + size <= n) {
        typename Group<T>::Raw raw;
        raw.bits = *(const uint4*)(row + first);
#pragma unroll
        for (int i = 0; i < size; i++) v[i] = to_float(raw.item[i]);
    } else {
#pragma unroll
        for (int i = 0; i < size; i++) v[i] = first + i < n ? to_float(row[first + i]) : negative_infinity();
    }
}

template <typename T>
static __device__ __forceinline__ void store(T* row, int g, int n, bool aligned, const float (&v)[Group<T>::size]) {
    const int size = Group<T>::size, first = g * size;
    if (aligned && first + size <= n) {
        typename Group<T>::Raw raw;
#pragma unroll
        for (int i = 0; i < size; i++) put(raw.item[i], v[i]);
        *(uint4*)(row + first) = raw.bits;
    } else {
#pragma unroll
        for (int i = 0; i < size; i++)
            if (first + i < n) put(row[first + i], v[i]);
    }
}

// Running sums of a softmax at temperature T, relative to the largest logit m so far: what is summed is at most 1.
// Exponents are in bits, z = (x - m) * bits with bits = log2(e) / T: the hardware's exponential is that of 2.
struct Sums {
    float max;  // m
    float sum;  // sum of 2^z
    float dot;  // sum of 2^z * z
};

static __device__ __forceinline__ float bits_of(double inv_t) { return (float)(inv_t * 1.4426950408889634); }

static __device__ __forceinline__ Sums no_sums() { return Sums{negative_infinity(), 0.0f, 0.0f}; }

// 2^z * z, where z may be -inf: 0 * inf would be NaN.
static __device__ __forceinline__ float times_exponent(float weight, float z) { return weight * fmaxf(z, -1e30f); }

// Express the sums relative to a larger maximum.
static __device__ __forceinline__ void raise(Sums& s, float max, float bits) {
    if (max > s.max) {
        if (s.max != negative_infinity()) {
            float z = (s.max - max) * bits, w = exp2f(z);
            s.dot = w * s.dot + times_exponent(w, z) * s.sum;
            s.sum *= w;
        }
        s.max = max;
    }
}

// Add a group; weight[i] is 2^z of v[i]. An element of -inf weighs 0; NaN makes the sum NaN.
template <int SIZE>
static __device__ __forceinline__ void add(Sums& s, const float (&v)[SIZE], float bits, float (&weight)[SIZE]) {
    float max = s.max;
#pragma unroll
    for (int i = 0; i < SIZE; i++) max = fmaxf(max, v[i]);
    raise(s, max, bits);
    const float base = s.max == negative_infinity() ? 0.0f : s.max;  // -inf - -inf would be NaN
#pragma unroll
    for (int i = 0; i < SIZE; i++) {
        float z = (v[i] - base) * bits;
        weight[i] = exp2f(z);
        s.sum += weight[i];
        s.dot += times_exponent(weight[i], z);
    }
}

struct MergeSums {
    float bits;
    __device__ __forceinline__ void operator()(Sums& a, Sums b) const {
        float max = fmaxf(a.max, b.max);
        raise(a, max, bits);
        raise(b, max, bits);
        a.sum += b.sum;
        a.dot += b.dot;
    }
};

// (x - max) / T - log(sum), the distance in FP64: once a row, and it keeps the last digit of log-probabilities of -1,600.
static __device__ __forceinline__ float log_probability(float x, float max, float log_sum, double inv_t) {
    return (float)(((double)x - (double)max) * inv_t) - log_sum;
}

template <typename T>
static __device__ __forceinline__ T from_lane(T mine, int distance) {
    union {
        T value;
        int word[sizeof(T) / 4];
    } u;
    u.value = mine;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 4); i++) u.word[i] = __shfl_xor_sync(FULL_WARP, u.word[i], distance);
    return u.value;
}

// Every lane gets the merged value of its warp.
template <typename T, typename Merge>
static __device__ __forceinline__ T warp_reduce(T mine, const Merge& merge) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) merge(mine, from_lane(mine, distance));
    return mine;
}

// Thread 0 gets the merged value of the block; part holds one value for each warp and is used once.
template <typename T, typename Merge>
static __device__ __forceinline__ T block_reduce(T mine, T* part, const Merge& merge) {
    mine = warp_reduce(mine, merge);
    int warps = blockDim.x / 32;
    if (warps == 1) return mine;
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < warps; w++) merge(mine, part[w]);
    return mine;
}
