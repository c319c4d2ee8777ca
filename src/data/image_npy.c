/* image_npy.c - see image_npy.h. The text is a Python dictionary, of which only what NumPy writes
 * is read: three known names, in any order. */
#include "data/image_npy.h"

#include <stdio.h>
#include <string.h>

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

typedef struct npy_text {
    const char *at, *end;
} npy_text;

static void skip_blanks(npy_text *t) {
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t')) {
        t->at++;
    }
}

/* Takes the character, with blanks before it, if it is there. */
static bool take(npy_text *t, char c) {
    skip_blanks(t);
    bool found = t->at < t->end && *t->at == c;
    t->at += found;
    return found;
}

/* Text in quotes of either kind, without escapes. */
static bool take_quoted(npy_text *t, char *out, size_t room) {
    skip_blanks(t);
    if (t->at >= t->end || (*t->at != '\'' && *t->at != '"')) {
        return false;
    }
    char quote = *t->at++;
    const char *close = memchr(t->at, quote, (size_t)(t->end - t->at));
    if (close == NULL || (size_t)(close - t->at) >= room) {
        return false;
    }
    memcpy(out, t->at, (size_t)(close - t->at));
    out[close - t->at] = '\0';
    t->at = close + 1;
    return true;
}

static bool take_word(npy_text *t, const char *word) {
    size_t n = strlen(word);
    skip_blanks(t);
    bool found = (size_t)(t->end - t->at) >= n && memcmp(t->at, word, n) == 0;
    t->at += found ? n : 0;
    return found;
}

/* Digits, at most 2^62. */
static bool take_number(npy_text *t, uint64_t *out) {
    const char *begin;
    skip_blanks(t);
    *out = 0;
    for (begin = t->at; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        if (*out > (UINT64_C(1) << 58)) {
            return false;
        }
        *out = 10 * *out + (uint64_t)(*t->at - '0');
    }
    return t->at > begin;
}

/* "(60000, 28, 28)", "(60000,)". */
static bool take_shape(npy_text *t, npy_head *out) {
    uint64_t all = 1;
    if (!take(t, '(')) {
        return false;
    }
    while (!take(t, ')')) {
        uint64_t size = 0;
        if (out->rank == NPY_MOST_RANK || !take_number(t, &size) ||
            __builtin_mul_overflow(all, size, &all) || all > (UINT64_C(1) << 62)) {
            return false;
        }
        out->dim[out->rank++] = size;
        if (!take(t, ',')) {
            return take(t, ')');
        }
    }
    return true;
}

/* Three entries; *fortran and the text of the type. */
static bool take_entries(npy_text *t, char type[16], bool *fortran, npy_head *out) {
    bool has_type = false, has_order = false, has_shape = false;
    if (!take(t, '{')) {
        return false;
    }
    while (!take(t, '}')) {
        char name[16];
        bool *seen = NULL, fine = false;
        if (!take_quoted(t, name, sizeof name) || !take(t, ':')) {
            return false;
        }
        if (strcmp(name, "descr") == 0) {
            seen = &has_type;
            fine = take_quoted(t, type, 16);
        } else if (strcmp(name, "fortran_order") == 0) {
            seen = &has_order;
            *fortran = take_word(t, "True");
            fine = *fortran || take_word(t, "False");
        } else if (strcmp(name, "shape") == 0 && !has_shape) {
            seen = &has_shape;
            fine = take_shape(t, out);
        }
        if (!fine || *seen) {
            return false;
        }
        *seen = true;
        (void)take(t, ',');
    }
    return has_type && has_order && has_shape;
}

/* "|u1", "<i8": a sign is not needed where an element is a byte. */
static bool read_type(const char *type, npy_head *out) {
    bool small = type[0] == '|' || type[0] == '<' || type[0] == '>' || type[0] == '=';
    if (!small || (type[1] != 'u' && type[1] != 'i') || type[2] == '\0' || type[3] != '\0' ||
        strchr("1248", type[2]) == NULL) {
        return false;
    }
    out->is_signed = type[1] == 'i';
    out->element = (uint32_t)(type[2] - '0');
    return out->element == 1 || type[0] == '<';
}

bool ebb__npy_known(const uint8_t *bytes, size_t n) {
    return n >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

ebb_status ebb__npy_read(ebb_ctx *ctx, const char *what, const char *path, const uint8_t *bytes,
                         size_t n, npy_head *out) {
    char type[16] = "";
    bool fortran = false;
    size_t begin = n > 6 && bytes[6] == 1 ? 10 : 12;
    *out = (npy_head){.bytes = 0};
    if (!ebb__npy_known(bytes, n) || n < begin || bytes[6] < 1 || bytes[6] > 3) {
        return ebb__fail(ctx, EBB_DATA, "%s %s: is not a NumPy file of version 1 to 3", what, path);
    }
    uint32_t length = (uint32_t)bytes[8] | (uint32_t)bytes[9] << 8;
    length |= begin == 12 ? (uint32_t)bytes[10] << 16 | (uint32_t)bytes[11] << 24 : 0;
    if (length > NPY_MOST_HEAD - begin || length > n - begin) {
        return ebb__fail(ctx, EBB_DATA,
                         "%s %s: its header tells of %u bytes of text, more than there are or than "
                         "such a file needs; copy it again",
                         what, path, length);
    }
    npy_text text = {(const char *)bytes + begin, (const char *)bytes + begin + length};
    if (!take_entries(&text, type, &fortran, out)) {
        return ebb__fail(ctx, EBB_DATA,
                         "%s %s: its header is not that of an array of up to %d axes; save it with "
                         "numpy.save",
                         what, path, NPY_MOST_RANK);
    }
    if (fortran || !read_type(type, out)) {
        return ebb__fail(ctx, EBB_DATA,
                         "%s %s: its elements are of type '%s'%s; save whole numbers, "
                         "little-endian, in C order",
                         what, path, type, fortran ? " in Fortran order" : "");
    }
    out->bytes = (uint32_t)(begin + length);
    return EBB_OK;
}
