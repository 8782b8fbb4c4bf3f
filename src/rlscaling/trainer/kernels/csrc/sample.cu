// One token of each row by Gumbel-max, and its log-probability, in one read of the logits.
//
// Idea: the token is the largest of x / T + Gumbel noise, and the noise of column j is a function of a counter (Philox
// 4x32-10, Salmon et al., SC 2011), so no random state is kept and every backend draws the same token. The sums of the
// log-probability run beside it. The logarithms of the noise are taken for few columns only: noise is at most -log(u),
// so a column can win only if u <= exp(x / T - score so far), and that exponential is nearly at hand.
//
// Bytes: V * size read a row. Instructions of an element, counted in the code for sm_90: 36, 15 of them Philox's; 120
// where the bound does not help.
//
// Versions: 1. softmax, cumulative sum, search: 4 V reads and writes. 2. Gumbel-max with both logarithms for every
// column: 120 instructions an element. 3. the bound (this one): same tokens, a third of the instructions.
#include "block.cuh"

struct Words {
    unsigned word[4];
};

static __device__ __forceinline__ Words philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned k0, unsigned k1) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return Words{{c0, c1, c2, c3}};
}

// In (0, 1): at a u rounded to 1 the noise would be -inf, and a lone token would lose.
static __device__ __forceinline__ float uniform(unsigned r) {
    return fminf(((float)r + 0.5f) * 0x1p-32f, 1.0f - 0x1p-24f);
}

struct Best {
    float x, noise;
    int token;
};

struct Draw {
    Sums sums;
    Best best;
};

// Whether b beats a; differences of logits first, so that large logits cost no digits. Ties go to the lower token.
static __device__ __forceinline__ bool beats(const Best& b, const Best& a, float inv_t) {
    float lead = (b.x - a.x) * inv_t + (b.noise - a.noise);
    return lead > 0.0f || (lead == 0.0f && b.token < a.token);
}

struct MergeDraws {
    float inv_t, bits;
    __device__ __forceinline__ void operator()(Draw& a, const Draw& b) const {
        MergeSums{bits}(a.sums, b.sums);
        if (beats(b.best, a.best, inv_t)) a.best = b.best;
    }
};

template <typename T>
static __device__ __forceinline__ void sample(
    const T* x, long long stride, int n, const long long* streams, const long long* positions, unsigned key_low,
    unsigned key_high, double inv_t, long long* tokens, float* logp, Draw* part
) {
    const int size = Group<T>::size, groups = groups_in<T>(n);
    const float scale = (float)inv_t, bits = bits_of(inv_t);
    const T* row = x + blockIdx.x * stride;
    const bool aligned = on_16_bytes(row);
    const unsigned long long stream = (unsigned long long)streams[blockIdx.x];
    const unsigned position = (unsigned)positions[blockIdx.x];
    Draw mine = {no_sums(), {negative_infinity(), 0.0f, 0}};
    for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        float v[size], weight[size];
        load(row, g, n, aligned, v);
        add(mine.sums, v, bits, weight);
        // a weight times this is exp(its x / T - score so far), the largest u with which its column can still win
        float reach = 1.001f * expf((mine.sums.max - mine.best.x) * scale - mine.best.noise);
#pragma unroll
        for (int i = 0; i < size; i += 4) {
            Words random = philox((unsigned)(g * (size / 4) + i / 4), position, (unsigned)stream, (unsigned)(stream >> 32),
                                  key_low, key_high);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float u = uniform(random.word[j]);
                if (v[i + j] == negative_infinity() || u > weight[i + j] * reach) continue;
                Best candidate = {v[i + j], -logf(-log1pf(-u)), g * size + i + j};
                if (beats(candidate, mine.best, scale)) mine.best = candidate;
            }
        }
    }
    Draw all = block_reduce(mine, part, MergeDraws{scale, bits});
    if (threadIdx.x == 0) {
        tokens[blockIdx.x] = all.best.token;
        logp[blockIdx.x] = log_probability(all.best.x, all.sums.max, logf(all.sums.sum), inv_t);
    }
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK) sample_f32(
    const float* x, long long stride, int n, const long long* streams, const long long* positions, unsigned key_low,
    unsigned key_high, double inv_t, long long* tokens, float* logp
) {
    __shared__ Draw part[LARGEST_BLOCK / 32];
    sample(x, stride, n, streams, positions, key_low, key_high, inv_t, tokens, logp, part);
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK) sample_bf16(
    const bf16* x, long long stride, int n, const long long* streams, const long long* positions, unsigned key_low,
    unsigned key_high, double inv_t, long long* tokens, float* logp
) {
    __shared__ Draw part[LARGEST_BLOCK / 32];
    sample(x, stride, n, streams, positions, key_low, key_high, inv_t, tokens, logp, part);
}
