/* What jpeg.c does, and what it takes. */

#ifndef PIPEPLUG_JPEG_H
#define PIPEPLUG_JPEG_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int x, y, width, height;
} region;

/* What `pipeplug_decode_part` takes; the Python module `pipeplug_image.native.jpeg` has a structure of the same fields. */
typedef struct {
    /* Functions of the library. */
    void *(*init)(int kind);
    int (*set)(void *handle, int parameter, int value);
    int (*read_header)(void *handle, const uint8_t *data, size_t size);
    int (*get)(void *handle, int parameter);
    int (*crop)(void *handle, region part);
    int (*decompress)(void *handle, const uint8_t *data, size_t size, uint8_t *out, int stride, int format);
    void (*destroy)(void *handle);
    int32_t scan_limit;
    const uint8_t *data;
    size_t size;
    int32_t height, width; /* that the library must find in the header, or it would write past the memory */
    region part;
    uint8_t *out;
    int32_t stride, format;
} decoding;

/* Returns 0 when the part is in `out` and nothing was wrong. */
int pipeplug_decode_part(const decoding *self);

#endif
