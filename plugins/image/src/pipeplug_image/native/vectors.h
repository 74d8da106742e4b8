/* Vectors of four floats, which GCC and Clang compile for any processor. */

#ifndef PIPEPLUG_VECTORS_H
#define PIPEPLUG_VECTORS_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* A function compiled for each generation of processors; the right one is taken when the library is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

typedef float vector __attribute__((vector_size(16)));

INLINE vector load(const float *at)
{
    vector value;
    memcpy(&value, at, sizeof value);
    return value;
}

INLINE void store(float *at, vector value)
{
    memcpy(at, &value, sizeof value);
}

INLINE vector same(float value)
{
    return (vector){value, value, value, value};
}

#if defined(__clang__)
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int32_t lanes __attribute__((vector_size(16)));
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (lanes){i, j, k, l})
#endif

/* Four pixels of four channels become four channels of four pixels. */
INLINE void transpose(vector rows[4])
{
    vector a = SHUFFLE(rows[0], rows[1], 0, 4, 1, 5), b = SHUFFLE(rows[2], rows[3], 0, 4, 1, 5);
    vector c = SHUFFLE(rows[0], rows[1], 2, 6, 3, 7), d = SHUFFLE(rows[2], rows[3], 2, 6, 3, 7);
    rows[0] = SHUFFLE(a, b, 0, 1, 4, 5);
    rows[1] = SHUFFLE(a, b, 2, 3, 6, 7);
    rows[2] = SHUFFLE(c, d, 0, 1, 4, 5);
    rows[3] = SHUFFLE(c, d, 2, 3, 6, 7);
}

#endif
