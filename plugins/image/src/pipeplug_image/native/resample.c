/* Linear resampling of 8-bit images, with mirroring and normalisation in the same pass over the pixels.
 *
 * Separable, rows first: the weighted sum of the source rows that an output row needs is one row of floats, which stays
 * in the cache; output pixels are weighted sums of its pixels. A pixel of three or four channels is one vector.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "resample.h"
#include "vectors.h"

/* Output i of an axis is the sum of `taps` source pixels from number first[i] on, times the weights from i * taps on. */
typedef struct {
    int taps;
    int *first;
    float *weights;
} axis;

/* Constant where it is compiled for a kind of image. */
typedef struct {
    int channels, taps;
} kind;

/* A triangle of weights, as wide as two source pixels or, with antialiasing, two output pixels. Those outside the image
 * are left out, the others normalised. Returns 0 when there is no memory. */
static int place(axis *self, double start, double step, int count, int length, int antialias, int mirror)
{
    double support = antialias && step > 1 ? step : 1, narrow = 1 / support, most = ceil(2 * support);
    int taps = self->taps = most < length ? (int)most : length;
    self->first = malloc((size_t)count * sizeof *self->first);
    self->weights = malloc((size_t)count * (size_t)taps * sizeof *self->weights);
    if (!self->first || !self->weights)
        return 0;
    for (int i = 0; i < count; i++) {
        double centre = start + (i + 0.5) * step - 0.5, sum = 0;
        double lowest = floor(centre - support) + 1, highest = length - taps;
        int first = (int)(lowest < 0 ? 0 : lowest > highest ? highest : lowest), at = mirror ? count - 1 - i : i;
        float *weights = self->weights + (size_t)at * (size_t)taps;
        self->first[at] = first;
        for (int t = 0; t < taps; t++) {
            double distance = fabs(first + t - centre) * narrow, weight = distance < 1 ? 1 - distance : 0;
            weights[t] = (float)weight;
            sum += weight;
        }
        for (int t = 0; t < taps; t++)
            weights[t] = (float)(weights[t] / sum);
    }
    return 1;
}

static void forget(axis *self)
{
    free(self->first);
    free(self->weights);
}

INLINE void sum_rows(float *row, const uint8_t *from, ptrdiff_t stride, const float *w, int taps, int add, size_t count)
{
    const uint8_t *a = from, *b = from + stride, *c = from + 2 * stride, *d = from + 3 * stride;
    for (size_t k = 0; k < count; k++) {
        float sum = w[0] * a[k];
        if (taps > 1)
            sum += w[1] * b[k];
        if (taps > 2)
            sum += w[2] * c[k];
        if (taps > 3)
            sum += w[3] * d[k];
        row[k] = add ? row[k] + sum : sum;
    }
}

/* The weighted sum of `taps` source rows. */
INLINE void blend(float *row, const uint8_t *from, ptrdiff_t stride, const float *weights, int taps, size_t count)
{
    switch (taps) {
    case 1:
        sum_rows(row, from, stride, weights, 1, 0, count);
        return;
    case 2:
        sum_rows(row, from, stride, weights, 2, 0, count);
        return;
    case 3:
        sum_rows(row, from, stride, weights, 3, 0, count);
        return;
    }
    sum_rows(row, from, stride, weights, 4, 0, count);
    int t = 4;
    for (; t + 4 <= taps; t += 4)
        sum_rows(row, from + t * stride, stride, weights + t, 4, 1, count);
    for (; t < taps; t++)
        sum_rows(row, from + t * stride, stride, weights + t, 1, 1, count);
}

/* Pixel x of an output row; of three channels the fourth number means nothing. */
INLINE vector mixed(const float *row, const axis *columns, kind of, int x)
{
    const float *at = row + (ptrdiff_t)columns->first[x] * of.channels;
    const float *weights = columns->weights + (ptrdiff_t)x * of.taps;
    vector sum = load(at) * same(weights[0]);
    for (int t = 1; t < of.taps; t++)
        sum += load(at + t * of.channels) * same(weights[t]);
    return sum;
}

INLINE void write_pixels(
    float *out, const float *row, const axis *columns, kind of, int count, vector factor, vector offset)
{
    for (int x = 0; x < count - 1; x++) /* the fourth number of three is overwritten by the next pixel */
        store(out + (ptrdiff_t)x * of.channels, mixed(row, columns, of, x) * factor + offset);
    vector last = mixed(row, columns, of, count - 1) * factor + offset;
    memcpy(out + (ptrdiff_t)(count - 1) * of.channels, &last, (size_t)of.channels * sizeof *out);
}

INLINE void write_planes(
    float *out, size_t plane, const float *row, const axis *columns, kind of, int count, vector factor, vector offset)
{
    int x = 0;
    for (; x + 4 <= count; x += 4) {
        vector pixels[4];
        for (int k = 0; k < 4; k++)
            pixels[k] = mixed(row, columns, of, x + k) * factor + offset;
        transpose(pixels);
        for (int c = 0; c < of.channels; c++)
            store(out + (size_t)c * plane + x, pixels[c]);
    }
    for (; x < count; x++) {
        vector value = mixed(row, columns, of, x) * factor + offset;
        for (int c = 0; c < of.channels; c++)
            out[(size_t)c * plane + (size_t)x] = value[c];
    }
}

/* Of one channel planes are pixels, and a pixel is a number. */
INLINE void write_gray(float *out, const float *row, const axis *columns, int count, float factor, float offset)
{
    for (int x = 0; x < count; x++) {
        const float *at = row + columns->first[x], *weights = columns->weights + (ptrdiff_t)x * columns->taps;
        float sum = 0;
        for (int t = 0; t < columns->taps; t++)
            sum += at[t] * weights[t];
        out[x] = sum * factor + offset;
    }
}

INLINE void round_to_bytes(uint8_t *restrict out, const float *restrict line, size_t count)
{
    for (size_t k = 0; k < count; k++) { /* halves up, as Pillow and OpenCV round when they resize */
        float value = line[k] + 0.5f;
        value = value < 0 ? 0 : value;
        out[k] = (uint8_t)(int32_t)(value > 255 ? 255 : value);
    }
}

INLINE void write_row(const resampling *self, int y, const float *row, const axis *columns, kind of, float *line)
{
    int count = self->out_width;
    size_t plane = (size_t)count * (size_t)self->out_height, start = (size_t)y * (size_t)count;
    vector factor = load(self->factor), offset = load(self->offset);
    float *out = self->form == BYTES ? line
        : self->form == FLOATS       ? (float *)self->out + start * (size_t)of.channels
                                     : (float *)self->out + start;
    if (of.channels == 1)
        write_gray(out, row, columns, count, factor[0], offset[0]);
    else if (self->form == PLANES_OF_FLOATS)
        write_planes(out, plane, row, columns, of, count, factor, offset);
    else
        write_pixels(out, row, columns, of, count, factor, offset);
    if (self->form == BYTES)
        round_to_bytes(
            (uint8_t *)self->out + start * (size_t)of.channels, line, (size_t)count * (size_t)of.channels);
}

INLINE void write_any(const resampling *self, int y, const float *row, const axis *columns, float *line)
{
    kind of = {self->channels, columns->taps};
    if (of.channels == 3 && of.taps == 2)
        write_row(self, y, row, columns, (kind){3, 2}, line);
    else if (of.channels == 3 && of.taps == 3)
        write_row(self, y, row, columns, (kind){3, 3}, line);
    else if (of.channels == 3 && of.taps == 4)
        write_row(self, y, row, columns, (kind){3, 4}, line);
    else
        write_row(self, y, row, columns, of, line);
}

FOR_EVERY_PROCESSOR
static void resample(const resampling *self, const axis *rows, const axis *columns, float *row, float *line)
{
    size_t count = (size_t)self->width * (size_t)self->channels;
    for (int y = 0; y < self->out_height; y++) {
        const uint8_t *from = self->source + rows->first[y] * self->source_stride;
        blend(row, from, self->source_stride, rows->weights + (ptrdiff_t)y * rows->taps, rows->taps, count);
        write_any(self, y, row, columns, line);
    }
}

int pipeplug_resample(const resampling *self)
{
    size_t row_size = (size_t)self->width * (size_t)self->channels + 3; /* `load` reads beyond the last pixel */
    size_t line_size = (size_t)self->out_width * (size_t)self->channels;
    axis rows = {0, NULL, NULL}, columns = {0, NULL, NULL};
    float *row = calloc(row_size + line_size, sizeof *row);
    int ready = row != NULL
        && place(&rows, self->top, self->row_step, self->out_height, self->height, self->antialias,
                 self->mirror_rows)
        && place(&columns, self->left, self->column_step, self->out_width, self->width, self->antialias,
                 self->mirror_columns);
    if (ready)
        resample(self, &rows, &columns, row, row + row_size);
    forget(&rows);
    forget(&columns);
    free(row);
    return ready ? 0 : -1;
}
