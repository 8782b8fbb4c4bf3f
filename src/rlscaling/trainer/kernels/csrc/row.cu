// Log-probability of a token and entropy of its distribution, and their gradient, for rows of logits.
//
// Idea: the largest logit, the sum of exp and the sum behind the entropy are kept together and rescaled when a larger
// logit comes ("online softmax", Milakov and Gimelshein, arXiv 1805.02867), so each logit is read once. The entropy is
// log(sum) - dot / sum: two terms of one sign.
//
// Bytes: forward V * size read a row; backward V * size read and as much written, in place if out is x.
// Instructions of an element, counted in the code for sm_90: 12 forward, 14 backward (bf16: 11 and 20), one exponential each.
//
// Versions: 1. three passes (max, sum, entropy): 3 V reads. 2. one pass, one rescaling per element: two exponentials an
// element. 3. one rescaling per group of 16 bytes: one exponential an element, plus one a group when the maximum rises;
// with expf and a test of each element for -inf about 30 instructions. 4. exponents in bits, no test (this one).
// A vector path chosen by alignment with another order of sums changed 123 of 200 rows of odd length with their address,
// so there is one order.
#include "block.cuh"

template <typename T>
static __device__ __forceinline__ void row_forward(
    const T* x, long long stride, int n, const long long* tokens, double inv_t,
    float* logp, float* entropy, float* row_max, float* log_sum, Sums* part
) {
    const int size = Group<T>::size, groups = groups_in<T>(n);
    const float bits = bits_of(inv_t);
    const T* row = x + blockIdx.x * stride;
    const bool aligned = on_16_bytes(row);
    Sums mine = no_sums();
    float weight[size];
    int g = threadIdx.x;
    for (; g + (AHEAD - 1) * (int)blockDim.x < groups; g += AHEAD * blockDim.x) {
        float v[AHEAD][size];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) load(row, g + k * blockDim.x, n, aligned, v[k]);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) add(mine, v[k], bits, weight);
    }
    for (; g < groups; g += blockDim.x) {
        float v[size];
        load(row, g, n, aligned, v);
        add(mine, v, bits, weight);
    }
    Sums all = block_reduce(mine, part, MergeSums{bits});
    if (threadIdx.x == 0) {
        long long token = tokens[blockIdx.x];
        float log_all = logf(all.sum);
        bool known = token >= 0 && token < n;  // an id out of range gives NaN and reads nothing
        logp[blockIdx.x] = known ? log_probability(to_float(row[token]), all.max, log_all, inv_t) : not_a_number();
        entropy[blockIdx.x] = log_all - all.dot / all.sum * LN2;
        row_max[blockIdx.x] = all.max;
        log_sum[blockIdx.x] = log_all;
    }
}

// d/dx of d_logp * logp + d_entropy * entropy: (d_logp * (onehot - p) - d_entropy * p * (log p + entropy)) / T.
template <typename T>
static __device__ __forceinline__ void row_backward(
    const T* x, long long stride, int n, const long long* tokens, const float* row_max, const float* log_sum,
    const float* entropy, const float* d_logp, const float* d_entropy, double inv_t, T* out, long long out_stride
) {
    const int size = Group<T>::size, groups = groups_in<T>(n), b = blockIdx.x;
    const float bits = bits_of(inv_t), max = row_max[b], log_all = log_sum[b] / LN2, H = entropy[b];
    const float slope = d_logp[b] * (float)inv_t, entropy_slope = d_entropy ? d_entropy[b] * (float)inv_t : 0.0f;
    const T* row = x + b * stride;
    T* to = out + b * out_stride;
    const bool aligned = on_16_bytes(row), out_aligned = on_16_bytes(to);
    const long long token = tokens[b];
    for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        float v[size];
        load(row, g, n, aligned, v);
#pragma unroll
        for (int i = 0; i < size; i++) {
            float z = (v[i] - max) * bits - log_all, p = exp2f(z);  // log2(p), p
            v[i] = slope * ((g * size + i == token ? 1.0f : 0.0f) - p);
            if (d_entropy) v[i] -= entropy_slope * (times_exponent(p, z) * LN2 + p * H);
        }
        store(to, g, n, out_aligned, v);
    }
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK) row_forward_f32(
    const float* x, long long stride, int n, const long long* tokens, double inv_t,
    float* logp, float* entropy, float* row_max, float* log_sum
) {
    __shared__ Sums part[LARGEST_BLOCK / 32];
    row_forward(x, stride, n, tokens, inv_t, logp, entropy, row_max, log_sum, part);
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK) row_forward_bf16(
    const bf16* x, long long stride, int n, const long long* tokens, double inv_t,
    float* logp, float* entropy, float* row_max, float* log_sum
) {
    __shared__ Sums part[LARGEST_BLOCK / 32];
    row_forward(x, stride, n, tokens, inv_t, logp, entropy, row_max, log_sum, part);
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK) row_backward_f32(
    const float* x, long long stride, int n, const long long* tokens, const float* row_max, const float* log_sum,
    const float* entropy, const float* d_logp, const float* d_entropy, double inv_t, float* out, long long out_stride
) {
    row_backward(x, stride, n, tokens, row_max, log_sum, entropy, d_logp, d_entropy, inv_t, out, out_stride);
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK) row_backward_bf16(
    const bf16* x, long long stride, int n, const long long* tokens, const float* row_max, const float* log_sum,
    const float* entropy, const float* d_logp, const float* d_entropy, double inv_t, bf16* out, long long out_stride
) {
    row_backward(x, stride, n, tokens, row_max, log_sum, entropy, d_logp, d_entropy, inv_t, out, out_stride);
}
