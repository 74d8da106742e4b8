/* The orientation that a camera stored; `pipeplug_image.codecs.exif` is the same in Python. */

#include <string.h>

#include "orientation.h"

/* A number of 2 or 4 bytes in an EXIF block. */
static size_t number(const uint8_t *at, int bytes, int little)
{
    size_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[little ? bytes - 1 - i : i];
    return value;
}

static int valid_orientation(size_t value)
{
    return value >= 1 && value <= 8 ? (int)value : 1;
}

int pipeplug_exif_orientation(const uint8_t *block, size_t size)
{
    if (size < 8 || !(memcmp(block, "II", 2) == 0 || memcmp(block, "MM", 2) == 0))
        return 0;
    int little = block[0] == 'I';
    size_t at = number(block + 4, 4, little);
    if (at > size - 2)
        return 0;
    size_t count = number(block + at, 2, little);
    for (at += 2; count > 0 && at + 12 <= size; count--, at += 12) {
        if (number(block + at, 2, little) != 0x0112)
            continue;
        switch (number(block + at + 2, 2, little)) {
        case 1:
            return valid_orientation(block[at + 8]);
        case 3:
            return valid_orientation(number(block + at + 8, 2, little));
        case 4:
            return valid_orientation(number(block + at + 8, 4, little));
        default:
            return 1;
        }
    }
    return 0;
}

int pipeplug_xmp_orientation(const uint8_t *text, size_t size)
{
    static const char name[] = "tiff:Orientation";
    enum { LENGTH = sizeof name - 1 };
    const uint8_t *end = text + size;
    for (; end - text > LENGTH + 1 && (text = memchr(text, name[0], (size_t)(end - text))) != NULL; text++) {
        const uint8_t *after = text + LENGTH;
        if (end - text <= LENGTH + 1 || memcmp(text, name, LENGTH) != 0)
            continue;
        if (*after == '=' && after[1] == '"')
            after += 2;
        else if (*after == '>')
            after++;
        else
            continue;
        if (after < end && *after >= '0' && *after <= '9')
            return valid_orientation((size_t)(*after - '0'));
    }
    return 0;
}
