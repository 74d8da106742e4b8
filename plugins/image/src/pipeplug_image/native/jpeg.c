/* A part of a JPEG by TurboJPEG 3, in one call.
 *
 * Whatever is out of the ordinary ends it. The caller then goes step by step, and says what is wrong.
 */

#include "jpeg.h"

enum parameter { JPEG_WIDTH = 5, JPEG_HEIGHT = 6 };

int pipeplug_decode_part(const decoding *self)
{
    return self->read_header(self->handle, self->data, self->size)
        || self->get(self->handle, JPEG_HEIGHT) != self->height || self->get(self->handle, JPEG_WIDTH) != self->width
        || self->crop(self->handle, self->part)
        || self->decompress(self->handle, self->data, self->size, self->out, self->stride, self->format);
}
