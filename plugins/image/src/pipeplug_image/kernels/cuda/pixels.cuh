/* Pixels of any dtype: how they are read as numbers, and how numbers become pixels.
 *
 * -DPIXEL and -DRESULT name the dtypes of what is read and written; both may be left out. To integers, halves round to
 * even, what does not fit saturates, and NaN becomes 0, as on the CPU.
 */

#ifndef PIPEPLUG_PIXELS_CUH
#define PIPEPLUG_PIXELS_CUH

typedef unsigned char uint8;
typedef signed char int8;
typedef unsigned short uint16;
typedef short int16;
typedef int int32;
typedef float float32;
typedef double float64;

struct float16 {
    unsigned short bits;
};

#ifdef __CUDACC_RTC__ /* else a compiler of the host compiles it for tests, and brings its own */
__device__ __forceinline__ float float_of(float16 value)
{
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(value.bits));
    return number;
}

__device__ __forceinline__ float16 half_of(float number)
{
    float16 value;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(value.bits) : "f"(number));
    return value;
}
#endif

template <typename T> __device__ __forceinline__ float load(T value) { return (float)value; }
template <> __device__ __forceinline__ float load(float16 value) { return float_of(value); }

#ifdef __CUDACC_RTC__
/* An integer to float32 takes a quarter of the speed of this: the byte as the last bits of 2^23, and 2^23 off again. */
template <> __device__ __forceinline__ float load(uint8 value)
{
    return __int_as_float(0x4b000000 | (int)value) - 8388608.0f;
}
#endif

template <typename T> __device__ __forceinline__ double load_double(T value) { return (double)value; }
template <> __device__ __forceinline__ double load_double(float16 value) { return (double)float_of(value); }

/* The least and the largest number of an integer dtype. */
template <typename T> struct limits;
template <> struct limits<uint8> { static constexpr int low = 0, high = 255; };
template <> struct limits<int8> { static constexpr int low = -128, high = 127; };
template <> struct limits<uint16> { static constexpr int low = 0, high = 65535; };
template <> struct limits<int16> { static constexpr int low = -32768, high = 32767; };
template <> struct limits<int32> { static constexpr int low = -2147483647 - 1, high = 2147483647; };

template <typename T> struct stored {
    static __device__ __forceinline__ T from(float number)
    {
        if (!(number == number))
            return (T)0;
        float whole = rintf(number);
        /* 2147483647 is no float: what reaches 2147483648 is past the end. */
        if (whole >= (float)limits<T>::high)
            return (T)limits<T>::high;
        return whole <= (float)limits<T>::low ? (T)limits<T>::low : (T)whole;
    }

    static __device__ __forceinline__ T from_double(double number)
    {
        if (!(number == number))
            return (T)0;
        double whole = rint(number);
        if (whole >= (double)limits<T>::high)
            return (T)limits<T>::high;
        return whole <= (double)limits<T>::low ? (T)limits<T>::low : (T)whole;
    }
};

template <> struct stored<float16> {
    static __device__ __forceinline__ float16 from(float number) { return half_of(number); }
    static __device__ __forceinline__ float16 from_double(double number) { return half_of((float)number); }
};

template <> struct stored<float32> {
    static __device__ __forceinline__ float32 from(float number) { return number; }
    static __device__ __forceinline__ float32 from_double(double number) { return (float)number; }
};

template <> struct stored<float64> {
    static __device__ __forceinline__ float64 from(float number) { return (double)number; }
    static __device__ __forceinline__ float64 from_double(double number) { return number; }
};

/* What full brightness is. */
template <typename T> struct brightest { static constexpr float value = 1.0f; };
template <> struct brightest<uint8> { static constexpr float value = 255.0f; };
template <> struct brightest<uint16> { static constexpr float value = 65535.0f; };

#ifdef PIXEL
typedef PIXEL pixel;
__device__ __forceinline__ float white() { return brightest<pixel>::value; }
#ifndef RESULT
#define RESULT PIXEL
#endif
#endif

#ifdef RESULT
typedef RESULT result;
__device__ __forceinline__ result store(float number) { return stored<result>::from(number); }
__device__ __forceinline__ result store_double(double number) { return stored<result>::from_double(number); }
#endif

#endif
