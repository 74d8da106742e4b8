/* What orientation.c does. */

#ifndef PIPEPLUG_ORIENTATION_H
#define PIPEPLUG_ORIENTATION_H

#include <stddef.h>
#include <stdint.h>

/* The orientation in an EXIF block, 1 to 8; 0 if it names none. */
int pipeplug_exif_orientation(const uint8_t *block, size_t size);

/* The orientation in an XMP packet, 1 to 8; 0 if it names none. */
int pipeplug_xmp_orientation(const uint8_t *text, size_t size);

#endif
