// Runs the kernels of this folder on a CPU: include this, then a .cu file, and compile with g++.
//
// One fiber stands for each CUDA thread of a block, blocks run one after the other. A fiber runs until it reaches a
// barrier, a shuffle or its end and hands over to the next one; the order is the caller's choice, and a kernel whose
// result depends on it misses a barrier. Refused with a message: a barrier or shuffle that not all threads reach, at
// one line. With CUDA_ON_CPU_THREADS each CUDA thread is an operating-system thread, for the thread sanitizer.
//
// The subset: 1-D grids and blocks, blocks of whole warps, plain static shared memory, __syncthreads, full-mask
// __shfl_xor_sync. Not: atomics, dynamic shared memory, cp.async, wgmma, __syncwarp. A test refuses .cu files with more.
#pragma once

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#ifdef CUDA_ON_CPU_THREADS
#include <pthread.h>
#include <thread>
#else
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("cuda_shared")))

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

struct Dim {
    unsigned x;
};

static thread_local Dim threadIdx, blockIdx;
static Dim blockDim;

static inline float __uint_as_float(unsigned bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }

extern "C" {  // bounds of the shared memory, from the linker; null where no kernel has any
extern char __start_cuda_shared[] __attribute__((weak));
extern char __stop_cuda_shared[] __attribute__((weak));
}

namespace cuda_on_cpu {

static char error[256];

// A block finds NaN in its shared memory, never what the block before left there.
__attribute__((no_sanitize("address", "undefined"), noinline)) static void poison_shared() {
    for (volatile char* p = __start_cuda_shared; p != __stop_cuda_shared; p = p + 1) *p = (char)0xff;
}

#ifdef CUDA_ON_CPU_THREADS

static pthread_barrier_t block_barrier;
static std::vector<pthread_barrier_t> warp_barriers;
static std::vector<unsigned> words;

static void barrier(int) { pthread_barrier_wait(&block_barrier); }

static unsigned exchange(unsigned, unsigned word, int distance, int) {
    const unsigned t = threadIdx.x;
    words[t] = word;
    pthread_barrier_wait(&warp_barriers[t / 32]);
    unsigned got = words[t ^ (unsigned)distance];
    pthread_barrier_wait(&warp_barriers[t / 32]);
    return got;
}

static bool run_block(void (*kernel)(void**), void** args, const std::vector<int>& order) {
    pthread_barrier_init(&block_barrier, nullptr, order.size());
    warp_barriers.resize(order.size() / 32);
    for (auto& b : warp_barriers) pthread_barrier_init(&b, nullptr, 32);
    words.assign(order.size(), 0);
    std::vector<std::thread> threads;
    const unsigned block = blockIdx.x;
    for (int t : order)
        threads.emplace_back([=] {
            threadIdx.x = (unsigned)t;
            blockIdx.x = block;
            kernel(args);
        });
    for (auto& thread : threads) thread.join();
    return true;
}

#else

enum State { READY, AT_BARRIER, AT_SHUFFLE, DONE };

static const size_t STACK = 256 * 1024;

struct Fiber {
    ucontext_t context;
    jmp_buf jump;
    std::unique_ptr<char[]> stack;
    bool started = false;
    State state = READY;
    int line = 0;           // where it waits
    unsigned parity = 0;    // of its next shuffle: a lane may write the next word while another still reads this one
    unsigned word[2] = {};
};

static std::vector<Fiber> fibers;
static Fiber scheduler;
static Fiber* current;
static const std::vector<int>* turns;  // of the threads
static size_t turn;                    // whose it is
static void (*job)(void**);
static void** job_args;

// swapcontext asks the kernel for the signal mask on every switch; a jump is ten times faster. The address sanitizer
// knows only the former.
#ifdef __SANITIZE_ADDRESS__
static void switch_to(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }
#else
__attribute__((noinline)) static void switch_to(Fiber& from, Fiber& to) {
    if (_setjmp(from.jump)) return;
    if (to.started) _longjmp(to.jump, 1);
    to.started = true;
    setcontext(&to.context);
}
#endif

// The thread that runs from this turn on; the scheduler when all have had theirs.
static Fiber& whose_turn() {
    for (; turn < turns->size(); turn++) {
        const int t = (*turns)[turn];
        if (fibers[(size_t)t].state != READY) continue;
        threadIdx.x = (unsigned)t;
        return *(current = &fibers[(size_t)t]);
    }
    return scheduler;
}

static void pass_on(State state) {
    Fiber& me = *current;
    me.state = state;
    turn++;
    switch_to(me, whose_turn());
}

static void fiber_main() {
    for (;;) {  // a fiber serves block after block
        job(job_args);
        pass_on(DONE);
    }
}

static void make_fibers(size_t n) {
    fibers = std::vector<Fiber>(n);
    scheduler.started = true;
    for (auto& f : fibers) {
        f.stack.reset(new char[STACK]);  // not zeroed: 256 stacks are 64 MiB
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.get();
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = nullptr;
        makecontext(&f.context, fiber_main, 0);
    }
}

static void wait(State state, int line) {
    current->line = line;
    pass_on(state);
}

static void barrier(int line) { wait(AT_BARRIER, line); }

static unsigned exchange(unsigned mask, unsigned word, int distance, int line) {
    Fiber& me = *current;
    const unsigned parity = me.parity ^= 1u;
    me.word[parity] = word;
    wait(AT_SHUFFLE, mask == 0xffffffffu ? line : -line);  // a partial mask never matches
    return fibers[threadIdx.x ^ (unsigned)distance].word[parity];
}

// Let threads first to last go on if all of them wait in this state at one line.
static bool release(size_t first, size_t last, State state) {
    for (size_t t = first; t < last; t++)
        if (fibers[t].state != state || fibers[t].line != fibers[first].line || fibers[t].line < 0) return false;
    for (size_t t = first; t < last; t++) fibers[t].state = READY;
    return true;
}

static bool stuck() {
    for (size_t t = 0; t < fibers.size(); t++) {
        const Fiber& f = fibers[t];
        if (f.state == AT_BARRIER || f.state == AT_SHUFFLE) {
            std::snprintf(error, sizeof error, "%s in line %d: thread %zu of block %u waits for threads that never come",
                          f.state == AT_BARRIER ? "divergent __syncthreads" : "partial-warp __shfl_xor_sync",
                          std::abs(f.line), t, blockIdx.x);
            break;
        }
    }
    fibers.clear();  // they hang in the middle of a kernel
    return false;
}

static bool run_block(void (*kernel)(void**), void** args, const std::vector<int>& order) {
    job = kernel;
    job_args = args;
    turns = &order;
    if (fibers.size() != order.size()) make_fibers(order.size());
    for (auto& f : fibers) f.state = READY;
    for (;;) {
        turn = 0;
        Fiber& first = whose_turn();
        bool moved = &first != &scheduler, done = true;
        if (moved) switch_to(scheduler, first);
        for (const auto& f : fibers) done = done && f.state == DONE;
        if (done) return true;
        for (size_t w = 0; w < fibers.size(); w += 32) moved = release(w, w + 32, AT_SHUFFLE) || moved;
        moved = release(0, fibers.size(), AT_BARRIER) || moved;
        if (!moved) return stuck();
    }
}

#endif

template <typename T>
static T shuffle(unsigned mask, T mine, int distance, int line) {
    static_assert(sizeof(T) == 4, "a shuffle moves words of 4 bytes");
    unsigned word;
    std::memcpy(&word, &mine, 4);
    word = exchange(mask, word, distance, line);
    std::memcpy(&mine, &word, 4);
    return mine;
}

// Order of the threads: 0 ascending, 1 descending, others shuffled by this seed.
static std::vector<int> thread_order(int n, int kind) {
    std::vector<int> order((size_t)n);
    for (int t = 0; t < n; t++) order[(size_t)t] = kind == 1 ? n - 1 - t : t;
    if (kind > 1) std::shuffle(order.begin(), order.end(), std::mt19937((unsigned)kind));
    return order;
}

// Run a grid; returns what went wrong, or null. args are pointers to the arguments, as in cuLaunchKernel.
static const char* launch(void (*kernel)(void**), int grid, int block, int order, void** args) {
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> lock(one_at_a_time);
    if (block <= 0 || block % 32) {
        std::snprintf(error, sizeof error, "a block of %d threads is no whole number of warps", block);
        return error;
    }
    blockDim.x = (unsigned)block;
    const std::vector<int> threads = thread_order(block, order);
    for (int b = 0; b < grid; b++) {
        blockIdx.x = (unsigned)b;
        poison_shared();
        if (!run_block(kernel, args, threads)) return error;
    }
    return nullptr;
}

template <typename... A, size_t... I>
void call(void (*kernel)(A...), void** args, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_reference_t<A>*>(args[I])...);
}

template <typename... A>
void call(void (*kernel)(A...), void** args) {
    call(kernel, args, std::index_sequence_for<A...>());
}

}  // namespace cuda_on_cpu

#define __syncthreads() cuda_on_cpu::barrier(__LINE__)
#define __shfl_xor_sync(mask, word, distance) cuda_on_cpu::shuffle(mask, word, distance, __LINE__)

// Make a kernel callable from outside as launch_NAME(grid, block, order, args).
#define CUDA_ON_CPU_KERNEL(name)                                                                   \
    extern "C" const char* launch_##name(int grid, int block, int order, void** args) {            \
        return cuda_on_cpu::launch([](void** a) { cuda_on_cpu::call(name, a); }, grid, block, order, args); \
    }
