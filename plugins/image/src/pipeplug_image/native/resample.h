/* What resample.c does, and what it takes. */

#ifndef PIPEPLUG_RESAMPLE_H
#define PIPEPLUG_RESAMPLE_H

#include <stddef.h>
#include <stdint.h>

enum form { BYTES, FLOATS, PLANES_OF_FLOATS };

/* What `pipeplug_resample` takes; the Python module `pipeplug_image.native.resample` has a structure of the same fields. */
typedef struct {
    const uint8_t *source;
    ptrdiff_t source_stride; /* bytes from row to row; pixels lie side by side */
    int32_t height, width, channels;
    int32_t antialias;
    double top, row_step, left, column_step; /* output row o lies at top + (o + 0.5) * row_step - 0.5 */
    void *out;                               /* contiguous */
    int32_t out_height, out_width, form;
    int32_t mirror_rows, mirror_columns;
    float factor[4], offset[4]; /* floats are factor * value + offset */
} resampling;

/* Returns 0, or -1 when there is no memory. The caller has checked everything. */
int pipeplug_resample(const resampling *self);

#endif
