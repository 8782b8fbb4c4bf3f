// The policy losses of losses.py: value, gradient and ratio statistics of N tokens in one pass.
//
// Idea: sample, prompt and token averages and the denominator are one weight per token, so every loss is a weighted sum;
// a token of weight 0 is not read further. Each block leaves its five sums in partial, added up by the caller in a fixed
// order: no atomics, the same bits every time.
//
// Bytes: 20 a token (16 read, 4 written); GSPO reads its tokens three times, from the cache after the first.
// Instructions: about 15 a token, one exponential.
//
// Versions: 1. torch, one kernel an operation: about 20 passes over N. 2. this one.
#include "block.cuh"

#define REINFORCE 0
#define CISPO 1
#define CLIPPED 2  // dapo, and grpo with equal bounds

struct Tally {  // sums over tokens in the loss; ratio_max is a maximum
    float value, tokens, ratio_sum, ratio_max, clipped;
};

struct MergeTallies {
    __device__ __forceinline__ void operator()(Tally& a, const Tally& b) const {
        a.value += b.value;
        a.tokens += b.tokens;
        a.ratio_sum += b.ratio_sum;
        a.ratio_max = fmaxf(a.ratio_max, b.ratio_max);
        a.clipped += b.clipped;
    }
};

struct Term {  // of one token
    float value, slope;  // slope: d value / d logp
    bool clipped;
};

// -w * min(ratio * A, clip(ratio, low, high) * A); the slope is by log(ratio). NaN stays NaN.
static __device__ __forceinline__ Term clipped_surrogate(float ratio, float advantage, float weight, float low, float high) {
    float bounded = ratio < low ? low : ratio > high ? high : ratio;
    float plain = ratio * advantage, cut = bounded * advantage;
    bool clipped = cut < plain;
    return Term{-weight * (clipped ? cut : plain), clipped ? 0.0f : -weight * plain, clipped};
}

static __device__ __forceinline__ Term token_term(
    int kind, float logp, float ratio, float advantage, float weight, float low, float high
) {
    if (kind == CLIPPED) return clipped_surrogate(ratio, advantage, weight, low, high);
    float cap = kind == CISPO && ratio > high ? high : ratio;
    float slope = kind == CISPO ? -cap * advantage * weight : -advantage * weight;
    return Term{slope * logp, slope, kind == CISPO && ratio > high};
}

static __device__ __forceinline__ Tally tally(const Term& term, float ratio) {
    return Tally{term.value, 1.0f, ratio, ratio, term.clipped ? 1.0f : 0.0f};
}

// One thread a token. low and high bound the ratio itself.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK) token_loss(
    int kind, int n, const float* logp, const float* old_logp, const float* advantage, const float* weight, float low,
    float high, float* slope, Tally* partial
) {
    __shared__ Tally part[LARGEST_BLOCK / 32];
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    Tally mine = {};
    if (t < n) {
        slope[t] = 0.0f;
        if (weight[t] > 0.0f) {
            float ratio = expf(logp[t] - old_logp[t]);
            Term term = token_term(kind, logp[t], ratio, advantage[t], weight[t], low, high);
            slope[t] = term.slope;
            mine = tally(term, ratio);
        }
    }
    mine = block_reduce(mine, part, MergeTallies());
    if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}

struct Mean {
    float sum, count;
};

struct MergeMeans {
    __device__ __forceinline__ void operator()(Mean& a, const Mean& b) const {
        a.sum += b.sum;
        a.count += b.count;
    }
};

// GSPO, one warp a sequence: its tokens are order[first[s]] to order[first[s + 1] - 1], and all share one ratio.
extern "C" __global__ void __launch_bounds__(32) sequence_loss(
    const long long* order, const long long* first, const float* logp, const float* old_logp, const float* advantage,
    const float* weight, float low, float high, float* slope, Tally* partial
) {
    const long long begin = first[blockIdx.x] + threadIdx.x, end = first[blockIdx.x + 1];
    Mean mean = {0.0f, 0.0f};
    for (long long i = begin; i < end; i += 32) {
        long long t = order[i];
        if (weight[t] > 0.0f) MergeMeans()(mean, Mean{logp[t] - old_logp[t], 1.0f});
    }
    mean = warp_reduce(mean, MergeMeans());
    const float ratio = expf(mean.sum / fmaxf(mean.count, 1.0f));
    Tally mine = {};
    float total = 0.0f;  // d loss / d log(ratio), from all tokens of the sequence
    for (long long i = begin; i < end; i += 32) {
        long long t = order[i];
        if (weight[t] > 0.0f) {
            Term term = clipped_surrogate(ratio, advantage[t], weight[t], low, high);
            total += term.slope;
            MergeTallies()(mine, tally(term, ratio));
        }
    }
    total = warp_reduce(Mean{total, 0.0f}, MergeMeans()).sum;
    mine = warp_reduce(mine, MergeTallies());
    for (long long i = begin; i < end; i += 32) {
        long long t = order[i];
        slope[t] = weight[t] > 0.0f ? total / mean.count : 0.0f;
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}
