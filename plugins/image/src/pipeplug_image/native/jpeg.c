/* A part of a JPEG by TurboJPEG 3, in one call.
 *
 * Whatever is out of the ordinary ends it. The caller then goes step by step, and says what is wrong.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int x, y, width, height;
} region;

/* What `pipeplug_decode_part` takes; the Python module `pipeplug_image.native.jpeg` has a structure of the same fields. */
typedef struct {
    /* Functions of the library. */
    int (*read_header)(void *handle, const uint8_t *data, size_t size);
    int (*get)(void *handle, int parameter);
    int (*crop)(void *handle, region part);
    int (*decompress)(void *handle, const uint8_t *data, size_t size, uint8_t *out, int stride, int format);
    void *handle;
    const uint8_t *data;
    size_t size;
    int32_t height, width; /* that the library must find in the header, or it would write past the memory */
    region part;
    uint8_t *out;
    int32_t stride, format;
} decoding;

enum parameter { JPEG_WIDTH = 5, JPEG_HEIGHT = 6 };

/* Returns 0 when the part is in `out` and nothing was wrong. */
int pipeplug_decode_part(const decoding *self)
{
    return self->read_header(self->handle, self->data, self->size)
        || self->get(self->handle, JPEG_HEIGHT) != self->height || self->get(self->handle, JPEG_WIDTH) != self->width
        || self->crop(self->handle, self->part)
        || self->decompress(self->handle, self->data, self->size, self->out, self->stride, self->format);
}
