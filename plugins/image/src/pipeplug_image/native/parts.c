/* Parts of many JPEGs, each decoded and resampled into its row of a batch, in one call. */

#include <stddef.h>
#include <stdint.h>

#include "jpeg.h"
#include "resample.h"

/* One picture; the Python module `pipeplug_image.native.jpeg` makes rows of the same numbers. */
typedef struct {
    int64_t row; /* of the batch */
    int64_t size; /* bytes of the file */
    int64_t height, width;
    int64_t frame_y, frame_x, frame_height, frame_width; /* what is decoded */
    int64_t y, x, part_height, part_width;               /* what is resampled */
    int64_t mirror_rows, mirror_columns;
} picture;

static int take(const decoding *decoder, const resampling *law, const uint8_t *data, const picture *self, char *out)
{
    decoding decode = *decoder;
    resampling resample = *law;
    decode.data = data;
    decode.size = (size_t)self->size;
    decode.height = (int32_t)self->height;
    decode.width = (int32_t)self->width;
    decode.part = (region){(int)self->frame_x, (int)self->frame_y, (int)self->frame_width, (int)self->frame_height};
    decode.stride = (int32_t)self->frame_width * law->channels;
    if (pipeplug_decode_part(&decode))
        return -1;
    resample.source_stride = decode.stride;
    resample.source = decode.out + (self->y - self->frame_y) * resample.source_stride
        + (self->x - self->frame_x) * law->channels;
    resample.height = (int32_t)self->part_height;
    resample.width = (int32_t)self->part_width;
    resample.row_step = (double)self->part_height / law->out_height;
    resample.column_step = (double)self->part_width / law->out_width;
    resample.out = out;
    resample.mirror_rows = (int32_t)self->mirror_rows;
    resample.mirror_columns = (int32_t)self->mirror_columns;
    return pipeplug_resample(&resample);
}

/* Returns how many pictures are done: fewer than `count` when something was out of the ordinary with the next one. */
int64_t pipeplug_resample_parts(const decoding *decoder, const resampling *law, const uint8_t *const *data,
                                const picture *pictures, int64_t count, char *out, int64_t row_size)
{
    for (int64_t i = 0; i < count; i++)
        if (take(decoder, law, data[i], &pictures[i], out + pictures[i].row * row_size))
            return i;
    return count;
}
