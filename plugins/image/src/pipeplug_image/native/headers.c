/* The headers of JPEGs, and whether all of the file is there, for decoders that do not notice what is missing.
 *
 * A file is plain when it is what cameras and libraries write, from the first marker to the last, and every table that
 * it uses is whole. Whatever is out of the ordinary is not judged here: a decoder that says what is wrong is to take it.
 * `pipeplug_image.codecs.formats.plain_jpeg` is the same in Python, line by line.
 */

#include <stddef.h>
#include <string.h>

#include "headers.h"
#include "orientation.h"

enum {
    LARGEST_SIDE = 65500, /* of libjpeg */
    MOST_SCANS = 500,     /* of a file of a few kB that would keep a decoder busy for minutes */
    MOST_BITS = 10,       /* of a coefficient of an 8-bit picture; its differences have one more */
};

typedef struct {
    int id, across, down, table;
} component;

typedef struct {
    const uint8_t *data;
    size_t size, at;
    int kind, height, width, components;
    component component[3];
    int quantizations, codes[2]; /* bits: which tables there are, those of codes by class */
    int interval;                /* MCUs between restart markers */
    int scans;
    int8_t missing[3][64]; /* low bits of each coefficient that scans have not brought yet; -1 before its first */
    int other_colors;      /* Adobe's marker names others than YCbCr */
    int exif, xmp;         /* orientations, 0 for none */
} reader;

static int big_endian(const uint8_t *at)
{
    return at[0] << 8 | at[1];
}

static int starts_with(const uint8_t *body, int size, const char *signature, int length)
{
    return size >= length && memcmp(body, signature, (size_t)length) == 0;
}

static void take_application(reader *self, int marker, const uint8_t *body, int size)
{
    static const char exif[] = "Exif\0", xmp[] = "http://ns.adobe.com/xap/1.0/"; /* with the 0 after them */
    if (marker == 0xE1 && self->exif == 0 && starts_with(body, size, exif, sizeof exif))
        self->exif = pipeplug_exif_orientation(body + sizeof exif, (size_t)size - sizeof exif);
    else if (marker == 0xE1 && starts_with(body, size, xmp, sizeof xmp))
        self->xmp = pipeplug_xmp_orientation(body, (size_t)size);
    else if (marker == 0xEE && size >= 12 && memcmp(body, "Adobe", 5) == 0 && body[11] != 1)
        self->other_colors = 1;
}

static int take_quantization(reader *self, const uint8_t *body, int size)
{
    for (; size > 0; body += 65, size -= 65) {
        if (size < 65 || body[0] > 3) /* tables of 16 bits are more than 3 as well */
            return 0;
        self->quantizations |= 1 << body[0];
    }
    return 1;
}

/* Whether there is a code for each of the lengths, none of them all ones, as libjpeg asks; and what they stand for. */
static int are_codes(const uint8_t *counts, const uint8_t *symbols, int total, int of_coefficients)
{
    int code = 0;
    for (int length = 1; length <= 16; length++) {
        code += counts[length - 1];
        if (code >= 1 << length)
            return 0;
        code <<= 1;
    }
    for (int i = 0; i < total; i++)
        if (of_coefficients ? (symbols[i] & 15) > MOST_BITS : symbols[i] > MOST_BITS + 1)
            return 0;
    return 1;
}

static int take_codes(reader *self, const uint8_t *body, int size)
{
    while (size > 0) {
        int total = 0, of_coefficients = body[0] >> 4, place = body[0] & 15;
        if (size < 17 || of_coefficients > 1 || place > 3)
            return 0;
        for (int length = 1; length <= 16; length++)
            total += body[length];
        if (total > 256 || total > size - 17 || !are_codes(body + 1, body + 17, total, of_coefficients))
            return 0;
        self->codes[of_coefficients] |= 1 << place;
        body += 17 + total;
        size -= 17 + total;
    }
    return 1;
}

/* Whether one colour or three are sampled as is usual: brightness up to 4 times as often as the others. */
static int is_usual_sampling(const reader *self)
{
    const component *first = self->component;
    if (self->components == 1)
        return first->across == 1 && first->down == 1;
    for (int i = 1; i < 3; i++)
        if (first[i].across != 1 || first[i].down != 1)
            return 0;
    return (first->across == 1 || first->across == 2 || first->across == 4)
        && (first->down == 1 || first->down == 2 || first->down == 4) && first->across * first->down <= 8;
}

static int take_frame(reader *self, int marker, const uint8_t *body, int size)
{
    if (self->kind != 0 || size < 6 || body[0] != 8)
        return 0;
    self->kind = marker == 0xC0 ? BASELINE : PROGRESSIVE;
    self->height = big_endian(body + 1);
    self->width = big_endian(body + 3);
    self->components = body[5];
    if (self->height < 1 || self->height > LARGEST_SIDE || self->width < 1 || self->width > LARGEST_SIDE)
        return 0;
    if ((self->components != 1 && self->components != 3) || size != 6 + 3 * self->components)
        return 0;
    for (int i = 0; i < self->components; i++) {
        const uint8_t *at = body + 6 + 3 * i;
        if (at[2] > 3)
            return 0;
        self->component[i] = (component){at[0], at[1] >> 4, at[1] & 15, at[2]};
        for (int j = 0; j < i; j++)
            if (self->component[j].id == at[0])
                return 0;
    }
    return is_usual_sampling(self);
}

/* The place of a component in the frame, -1 for none. */
static int place_of(const reader *self, int id)
{
    for (int i = 0; i < self->components; i++)
        if (self->component[i].id == id)
            return i;
    return -1;
}

/* Whether the coefficients `first` to `last` of a component lack what a scan brings: their bits down to bit `low`. */
static int takes_bits(reader *self, int place, int first, int last, int high, int low)
{
    int8_t *missing = self->missing[place];
    if (first > 0 && missing[0] < 0)
        return 0;
    for (int i = first; i <= last; i++) {
        if (missing[i] < 0 ? high != 0 : high == 0 || missing[i] != high)
            return 0;
        missing[i] = (int8_t)low;
    }
    return 1;
}

/* Whether a scan of a progressive picture follows from those before it, as libjpeg asks. */
static int is_next_scan(reader *self, const uint8_t *body, int count)
{
    int first = body[1 + 2 * count], last = body[2 + 2 * count];
    int high = body[3 + 2 * count] >> 4, low = body[3 + 2 * count] & 15;
    if (low > 13 || (high != 0 && high != low + 1))
        return 0;
    if (first == 0 ? last != 0 : last < first || last > 63 || count != 1)
        return 0;
    for (int i = 0; i < count; i++) {
        int tables = body[2 + 2 * i], codes = first > 0 ? tables & 15 : tables >> 4;
        int needs_codes = first > 0 || high == 0;
        if (needs_codes && (codes > 3 || !(self->codes[first > 0] >> codes & 1)))
            return 0;
        if (!takes_bits(self, place_of(self, body[1 + 2 * i]), first, last, high, low))
            return 0;
    }
    return 1;
}

/* Whether a scan is all of a baseline picture. */
static int is_only_scan(const reader *self, const uint8_t *body, int count)
{
    if (self->scans != 1 || count != self->components || memcmp(body + 1 + 2 * count, "\0\77\0", 3) != 0)
        return 0;
    for (int i = 0; i < count; i++) {
        int dc = body[2 + 2 * i] >> 4, ac = body[2 + 2 * i] & 15;
        if (dc > 1 || ac > 1 || !(self->codes[0] >> dc & 1) || !(self->codes[1] >> ac & 1))
            return 0;
    }
    return 1;
}

static int take_scan(reader *self, const uint8_t *body, int size)
{
    int count = size > 0 ? body[0] : 0, before = -1;
    if (self->kind == 0 || count < 1 || count > self->components || size != 4 + 2 * count || ++self->scans > MOST_SCANS)
        return 0;
    for (int i = 0; i < count; i++) {
        int place = place_of(self, body[1 + 2 * i]);
        if (place <= before || !(self->quantizations >> self->component[place].table & 1))
            return 0;
        before = place;
    }
    return self->kind == BASELINE ? is_only_scan(self, body, count) : is_next_scan(self, body, count);
}

/* Goes over coded pixels to the marker after them. */
static int pass_pixels(reader *self)
{
    const uint8_t *start = self->data + self->at, *end = self->data + self->size, *at = start;
    for (int restarts = 0;; at += 2) {
        at = memchr(at, 0xFF, (size_t)(end - at));
        if (at == NULL || at + 1 == end)
            return 0;
        if (at[1] == 0)
            continue;
        if ((at[1] & 0xF8) != 0xD0)
            break;
        if (self->interval == 0 || at[1] != 0xD0 + (restarts++ & 7))
            return 0;
    }
    self->at = (size_t)(at - self->data);
    return at > start;
}

static int take_segment(reader *self, int marker, const uint8_t *body, int size)
{
    switch (marker) {
    case 0xC0:
    case 0xC2:
        return take_frame(self, marker, body, size);
    case 0xC4:
        return take_codes(self, body, size);
    case 0xDA:
        return take_scan(self, body, size) && pass_pixels(self);
    case 0xDB:
        return self->scans == 0 && take_quantization(self, body, size);
    case 0xDD:
        self->interval = size == 2 ? big_endian(body) : 0;
        return size == 2;
    case 0xFE:
        return 1;
    default:
        if (self->scans == 0)
            take_application(self, marker, body, size);
        return (marker & 0xF0) == 0xE0;
    }
}

/* Whether the scans brought all coefficients, and their colours are what decoders take them for. */
static int is_whole(const reader *self)
{
    if (self->scans == 0)
        return 0;
    for (int i = 0; self->kind == PROGRESSIVE && i < self->components; i++)
        for (int j = 0; j < 64; j++)
            if (self->missing[i][j] != 0)
                return 0;
    const component *each = self->component;
    int named_rgb = each[0].id == 'R' && each[1].id == 'G' && each[2].id == 'B';
    return self->components == 1 || !(self->other_colors || named_rgb);
}

/* Whether it is a plain file. */
static int read_file(reader *self)
{
    if (self->size < 2 || memcmp(self->data, "\xff\xd8", 2) != 0)
        return 0;
    self->at = 2;
    for (;;) {
        const uint8_t *at = self->data + self->at;
        size_t left = self->size - self->at;
        if (left < 2 || at[0] != 0xFF)
            return 0;
        self->at += 2;
        if (at[1] == 0xD9)
            return is_whole(self);
        if (left < 4 || big_endian(at + 2) < 2 || (size_t)big_endian(at + 2) > left - 2)
            return 0;
        self->at += (size_t)big_endian(at + 2);
        if (!take_segment(self, at[1], at + 4, big_endian(at + 2) - 2))
            return 0;
    }
}

void pipeplug_read_headers(const uint8_t *const *data, const int64_t *sizes, int64_t count, headline *out)
{
    for (int64_t i = 0; i < count; i++) {
        reader self = {.data = data[i], .size = (size_t)sizes[i]};
        memset(self.missing, -1, sizeof self.missing);
        if (!read_file(&self)) {
            out[i] = (headline){0};
            continue;
        }
        int orientation = self.exif ? self.exif : self.xmp ? self.xmp : 1;
        out[i] = (headline){self.kind, self.height, self.width, self.components, orientation, (int64_t)self.at};
    }
}
