/* A part of a JPEG by TurboJPEG 3, in one call.
 *
 * Whatever is out of the ordinary ends it. The caller then goes step by step, and says what is wrong.
 */

#include "jpeg.h"

enum parameter { DECOMPRESS = 1, JPEG_WIDTH = 5, JPEG_HEIGHT = 6, SCAN_LIMIT = 13 };

static int decode(const decoding *self, void *handle)
{
    return self->set(handle, SCAN_LIMIT, self->scan_limit)
        || self->read_header(handle, self->data, self->size)
        || self->get(handle, JPEG_HEIGHT) != self->height || self->get(handle, JPEG_WIDTH) != self->width
        || self->crop(handle, self->part)
        || self->decompress(handle, self->data, self->size, self->out, self->stride, self->format);
}

int pipeplug_decode_part(const decoding *self)
{
    /* A handle of its own, for one keeps the tables of the picture before, and its failures. */
    void *handle = self->init(DECOMPRESS);
    int failed = handle == NULL || decode(self, handle);
    if (handle != NULL)
        self->destroy(handle);
    return failed;
}
