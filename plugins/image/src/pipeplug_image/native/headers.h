/* What headers.c does, and what it gives. */

#ifndef PIPEPLUG_HEADERS_H
#define PIPEPLUG_HEADERS_H

#include <stdint.h>

enum kind { OUT_OF_THE_ORDINARY, BASELINE, PROGRESSIVE };

/* What is known of one file, all 0 where it is out of the ordinary; the Python module `pipeplug_image.codecs.headers`
 * makes rows of the same numbers. */
typedef struct {
    int64_t kind; /* of `enum kind` */
    int64_t height, width, components;
    int64_t orientation; /* 1 to 8 */
    int64_t end;         /* where the picture ends in the file: after its end marker */
} headline;

/* Reads `count` files. */
void pipeplug_read_headers(const uint8_t *const *data, const int64_t *sizes, int64_t count, headline *out);

#endif
