/* CUDA C++ as a compiler of the host understands it, and what runs a kernel: one block after another, its threads as
 * fibres that take turns at barriers. Without -DFIBRES threads simply run one after another; kernels with barriers
 * need it. */

#ifndef PIPEPLUG_SHIM_H
#define PIPEPLUG_SHIM_H

#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <ucontext.h>

#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __constant__ static
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("block_shared")))

struct dim3 {
    unsigned x, y, z;
};

static dim3 threadIdx, blockIdx, blockDim, gridDim;

/* Intrinsics that are plain C++ here. */
template <typename T> inline T __ldg(const T *place) { return *place; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline int __float2int_rn(float a) { return (int)rintf(a); }
inline int __float2int_rd(float a) { return (int)floorf(a); }
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }

struct float16;
float float_of(float16 value);
float16 half_of(float number);

namespace emulator {

/* Halves: IEEE 754 binary16, to the nearest, ties to even. */
inline float widened(unsigned short bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexpf((float)fraction, -24)
                                 : ldexpf((float)(fraction | 1024), exponent - 25);
    return bits >> 15 ? -size : size;
}

inline unsigned short narrowed(float number)
{
    unsigned short sign = signbit(number) ? 0x8000 : 0;
    float size = fabsf(number);
    if (!(size == size))
        return sign | 0x7e00;
    if (size >= 65520.0f)
        return sign | 0x7c00;
    if (size < 6.103515625e-05f) /* a rounding up to the least normal number carries into the exponent */
        return sign | (unsigned short)rintf(ldexpf(size, 24));
    int exponent;
    float fraction = frexpf(size, &exponent);
    return sign | (unsigned short)(((exponent + 13) << 10) + (int)rintf(ldexpf(fraction, 11)));
}

inline dim3 place(long long number, dim3 size)
{
    long long row = number / size.x;
    return {(unsigned)(number % size.x), (unsigned)(row % size.y), (unsigned)(row / size.y)};
}

inline long long volume(dim3 size) { return (long long)size.x * size.y * size.z; }

/* Calls a kernel with arguments of 8 bytes, as a launch passes them. */
template <typename... Arguments, size_t... Places>
void call(void (*kernel)(Arguments...), const long long *arguments, std::index_sequence<Places...>)
{
    static_assert(((sizeof(Arguments) == 8) && ...), "arguments of kernels are pointers and long longs");
    kernel(((Arguments)arguments[Places])...);
}

template <typename... Arguments> void call(void (*kernel)(Arguments...), const long long *arguments)
{
    call(kernel, arguments, std::index_sequence_for<Arguments...>());
}

template <typename... Arguments> constexpr int arity(void (*)(Arguments...)) { return sizeof...(Arguments); }

} // namespace emulator

/* Memory of a block is unknown when it begins. The linker gives the bounds, if there is any. */
extern "C" __attribute__((weak)) char __start_block_shared[], __stop_block_shared[];

namespace emulator {

inline void forget_shared()
{
    if (__start_block_shared)
        memset(__start_block_shared, 0xCD, __stop_block_shared - __start_block_shared);
}

/* Places that a kernel took or wrote at an address which is no multiple of the type's size: a GPU stops there. */
static int misaligned = 0;

#ifdef FIBRES

enum { MOST = 1024, STACK = 1 << 16, NOT_DONE = 0, AT_BARRIER, DONE };

static ucontext_t first, fresh;
static jmp_buf scheduler, fibres[MOST];
static char *stacks;
static int state[MOST], current;
static void (*body)(void);

/* `swapcontext` asks the system each time it switches; `longjmp` does not. */
inline void leave(int why)
{
    state[current] = why;
    if (!_setjmp(fibres[current]))
        _longjmp(scheduler, 1);
}

static void fibre()
{
    for (;;) {
        body();
        leave(DONE);
    }
}

inline void enter(int thread, bool is_new)
{
    current = thread;
    threadIdx = place(thread, blockDim);
    if (_setjmp(scheduler))
        return;
    if (!is_new)
        _longjmp(fibres[thread], 1);
    getcontext(&fresh);
    fresh.uc_stack.ss_sp = stacks + (size_t)thread * STACK;
    fresh.uc_stack.ss_size = STACK;
    fresh.uc_link = 0;
    makecontext(&fresh, fibre, 0);
    swapcontext(&first, &fresh);
}

/* Runs all threads to the next barrier, forwards and backwards in turn, so that a missing barrier shows. Whether they
 * all came to it, or all to the end. */
inline bool advance(int threads, int phase, bool is_new)
{
    int ended = 0;
    for (int turn = 0; turn < threads; turn++) {
        int thread = phase % 2 ? threads - 1 - turn : turn;
        enter(thread, is_new);
        ended += state[thread] == DONE;
    }
    return ended == 0 || ended == threads;
}

/* Whether all threads of each block met at the same number of barriers. */
inline bool run(void (*kernel)(void))
{
    int threads = (int)volume(blockDim);
    char *memory = new char[(size_t)threads * STACK];
    stacks = memory;
    body = kernel;
    bool met = true;
    for (long long block = 0; met && block < volume(gridDim); block++) {
        blockIdx = place(block, gridDim);
        forget_shared();
        int phase = 0;
        do
            met = advance(threads, phase, block == 0 && phase == 0);
        while (phase++, met && state[0] != DONE);
    }
    delete[] memory;
    return met;
}

#else

inline bool run(void (*kernel)(void))
{
    for (long long block = 0; block < volume(gridDim); block++) {
        blockIdx = place(block, gridDim);
        forget_shared();
        for (long long thread = 0; thread < volume(blockDim); thread++) {
            threadIdx = place(thread, blockDim);
            kernel();
        }
    }
    return true;
}

#endif

} // namespace emulator

#ifdef FIBRES
inline void __syncthreads() { emulator::leave(emulator::AT_BARRIER); }
#endif

/* What a sanitizer calls where a pointer is null, too small for its type, or not aligned to it. */
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(void *, unsigned long)
{
    emulator::misaligned++;
}

#endif
