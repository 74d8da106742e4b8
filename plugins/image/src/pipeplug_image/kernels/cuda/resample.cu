/* Resizing, mirroring and normalising a ragged batch in one pass over its pixels.
 *
 * Output pixel o lies at start + (o + 0.5) * step of the source. FILTER is 0 nearest, 1 linear, 2 cubic (a = -0.5) or
 * 3 Lanczos (3 lobes); weights of taps outside of the source are left out, the others normalised, as Pillow does. A block
 * makes one tile of one sample: it resamples rows of the source to the tile's columns in shared memory, some rows at a
 * time, and adds them up in the registers of the threads whose output rows they belong to.
 */

#include "pixels.cuh"

#define SIDE 32     /* of a tile, and the rows of the source that are in shared memory at a time */
#define WARPS 8     /* of a block; each lane has a column of the tile */
#define OWN (SIDE / WARPS)

/* What is done with one sample; `ROW` of resample.py has the same fields. */
struct sample {
    const pixel *source;
    result *target;
    double start_y, start_x, step_y, step_x;
    double stretch_y, stretch_x; /* of the filter */
    long long stride;            /* of the source's rows, in pixels' channels */
    int height, width, out_height, out_width;
    int mirror_rows, mirror_columns;
    float factor[4], offset[4]; /* by channel, what the result is multiplied by, and what is added then */
};

static __device__ __forceinline__ float factor_of(const sample &self, int channel)
{
    return self.factor[channel < 4 ? channel : 3];
}

static __device__ __forceinline__ float offset_of(const sample &self, int channel)
{
    return self.offset[channel < 4 ? channel : 3];
}

static __device__ __forceinline__ void write(const sample &self, int row, int column, const float *values)
{
    if (row >= self.out_height || column >= self.out_width)
        return;
    long long y = self.mirror_rows ? self.out_height - 1 - row : row;
    long long x = self.mirror_columns ? self.out_width - 1 - column : column;
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++) {
        float value = fmaf(values[channel], factor_of(self, channel), offset_of(self, channel));
#if PLANAR
        self.target[(channel * (long long)self.out_height + y) * self.out_width + x] = store(value);
#else
        self.target[(y * self.out_width + x) * CHANNELS + channel] = store(value);
#endif
    }
}

#if FILTER == 0

/* Pillow's pixel: it adds the step once a pixel, and where a place falls between two pixels its rounding decides. */
static __device__ __forceinline__ int nearest(double start, double step, int place, int length)
{
    double at = start + step * 0.5;
    if (step == 1.0)
        at += place;
    else
        for (int i = 0; i < place; i++)
            at += step;
    int found = (int)at;
    return found < length - 1 ? found : length - 1;
}

extern "C" __global__ void __launch_bounds__(SIDE *WARPS) resample(const sample *samples)
{
    __shared__ int places[2][SIDE];
    const sample &self = samples[blockIdx.y];
    int across = (self.out_width + SIDE - 1) / SIDE;
    int row = (int)blockIdx.x / across * SIDE, column = (int)blockIdx.x % across * SIDE;
    if (row >= self.out_height)
        return;
    if (threadIdx.y == 0)
        places[0][threadIdx.x] = nearest(self.start_y, self.step_y, row + threadIdx.x, self.height);
    if (threadIdx.y == 1)
        places[1][threadIdx.x] = nearest(self.start_x, self.step_x, column + threadIdx.x, self.width);
    __syncthreads();
    int x = places[1][threadIdx.x];
    for (int own = threadIdx.y; own < SIDE; own += WARPS) {
        const pixel *from = self.source + places[0][own] * self.stride + (long long)x * CHANNELS;
        float values[CHANNELS];
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            values[channel] = load(from[channel]);
        write(self, row + own, column + (int)threadIdx.x, values);
    }
}

#else

#if FILTER == 1
#define RADIUS 1.0
static __device__ __forceinline__ float weight(float distance) { return fmaxf(0.0f, 1.0f - fabsf(distance)); }
#elif FILTER == 2
#define RADIUS 2.0
static __device__ __forceinline__ float weight(float distance)
{
    float d = fabsf(distance);
    if (d < 1.0f)
        return (1.5f * d - 2.5f) * d * d + 1.0f;
    return d < 2.0f ? -0.5f * (((d - 5.0f) * d + 8.0f) * d - 4.0f) : 0.0f;
}
#else
#define RADIUS 3.0
static __device__ __forceinline__ float sinc(float x)
{
    float angle = x * 3.14159265358979f;
    return angle == 0.0f ? 1.0f : sinf(angle) / angle;
}
static __device__ __forceinline__ float weight(float distance)
{
    return fabsf(distance) < 3.0f ? sinc(distance) * sinc(distance / 3.0f) : 0.0f;
}
#endif

/* Of bytes, Pillow makes bytes between the passes. That shows where a filter overshoots: ROUNDED says so. */
static __device__ __forceinline__ float between(float value)
{
#if ROUNDED
    return rintf(fminf(fmaxf(value, 0.0f), white()));
#else
    return value;
#endif
}

/* The source pixels that make an output pixel: tap k has weight(at + k * step) * scale. */
struct taps {
    int first, count;
    float at, step, scale;
};

static __device__ __forceinline__ taps taps_at(double start, double step, double stretch, int place, int length)
{
    double centre = start + (place + 0.5) * step, support = RADIUS * stretch;
    int first = (int)(centre - support + 0.5), end = (int)(centre + support + 0.5);
    taps self;
    self.first = first > 0 ? (first < length ? first : length - 1) : 0;
    end = end < length ? end : length;
    self.count = end > self.first ? end - self.first : 1;
    self.step = 1.0f / (float)stretch;
    self.at = (float)(self.first + 0.5 - centre) * self.step;
    float sum = 0.0f;
    for (int k = 0; k < self.count; k++)
        sum += weight(self.at + k * self.step);
    self.scale = 1.0f / sum;
    return self;
}

extern "C" __global__ void __launch_bounds__(SIDE *WARPS) resample(const sample *samples)
{
    __shared__ float lines[SIDE][CHANNELS][SIDE];
    __shared__ taps columns[SIDE], rows[SIDE];
    const sample &self = samples[blockIdx.y];
    int across = (self.out_width + SIDE - 1) / SIDE;
    int row = (int)blockIdx.x / across * SIDE, column = (int)blockIdx.x % across * SIDE;
    if (row >= self.out_height)
        return;
    int lane = threadIdx.x, warp = threadIdx.y;
    int last_column = self.out_width - 1 - column, last_row = self.out_height - 1 - row;
    if (warp == 0)
        columns[lane] = taps_at(self.start_x, self.step_x, self.stretch_x,
                                column + (lane < last_column ? lane : last_column), self.width);
    if (warp == 1)
        rows[lane] = taps_at(self.start_y, self.step_y, self.stretch_y, row + (lane < last_row ? lane : last_row),
                             self.height);
    __syncthreads();
    const taps horizontal = columns[lane];
    float sums[OWN][CHANNELS];
#pragma unroll
    for (int own = 0; own < OWN; own++)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            sums[own][channel] = 0.0f;
    int end = rows[SIDE - 1].first + rows[SIDE - 1].count;
    const pixel *start = self.source + (long long)horizontal.first * CHANNELS;
    for (int first = rows[0].first; first < end; first += SIDE) {
        for (int line = warp; line < SIDE && first + line < end; line += WARPS) {
            const pixel *from = start + (first + line) * self.stride;
            float values[CHANNELS];
#pragma unroll
            for (int channel = 0; channel < CHANNELS; channel++)
                values[channel] = 0.0f;
#pragma unroll 4
            for (int k = 0; k < horizontal.count; k++) {
                float share = weight(fmaf((float)k, horizontal.step, horizontal.at));
#pragma unroll
                for (int channel = 0; channel < CHANNELS; channel++)
                    values[channel] = fmaf(share, load(from[k * CHANNELS + channel]), values[channel]);
            }
#pragma unroll
            for (int channel = 0; channel < CHANNELS; channel++)
                lines[line][channel][lane] = between(values[channel] * horizontal.scale);
        }
        __syncthreads();
#pragma unroll
        for (int own = 0; own < OWN; own++) {
            const taps vertical = rows[warp + own * WARPS];
            int from = vertical.first > first ? vertical.first : first;
            int stop = vertical.first + vertical.count;
            stop = stop < first + SIDE ? stop : first + SIDE;
            for (int y = from; y < stop; y++) {
                float share = weight(fmaf((float)(y - vertical.first), vertical.step, vertical.at)) * vertical.scale;
#pragma unroll
                for (int channel = 0; channel < CHANNELS; channel++)
                    sums[own][channel] = fmaf(share, lines[y - first][channel][lane], sums[own][channel]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int own = 0; own < OWN; own++)
        write(self, row + warp + own * WARPS, column + lane, sums[own]);
}

#endif
