/* line.c - see line.h. */
#include "cost/line.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_MEMBERS = 1024, NAME_BYTES = 64 };
enum { LEAST_INTS = 8 }; /* attributes that every line has; zeros behind them are left out */
static const int64_t MOST_DIM = INT64_C(1) << 40;
/* A quarter of an hour and more; up to here a double and the line give each other back. */
static const int64_t MOST_TICKS = INT64_C(1000000000000000);
static const double TICKS = 1e12; /* a second */

/* ---- writing ---- */

static int64_t ticks_of(double seconds) {
    double ticks = seconds * TICKS;
    if (!(ticks > 0)) {
        return 0;
    }
    /* What was measured is never nothing: 0 stands for a time that is not known. */
    return ticks < 1 ? 1 : ticks < (double)MOST_TICKS ? llround(ticks) : MOST_TICKS;
}

double ebb__cost_line_seconds(double seconds) {
    return (double)ticks_of(seconds) / TICKS;
}

void ebb__cost_line_write(const device *dev, const cost_entry *entry, char line[COST_LINE_BYTES]) {
    const cost_key *key = &entry->key;
    size_t n = 0;
#define ADD(...) n += (size_t)snprintf(line + n, COST_LINE_BYTES - n, __VA_ARGS__)
    ADD("{\"kernel\": \"%.63s\", \"m\": %" PRId64 ", \"n\": %" PRId64 ", \"k\": %" PRId64
        ", \"attr\": [",
        dev->kernels[key->kernel].name, key->m, key->n, key->k);
    int last = IR_MAX_INTS;
    while (last > LEAST_INTS && key->attr[last - 1] == 0) {
        last--;
    }
    for (int i = 0; i < last; i++) {
        ADD("%s%" PRId32, i > 0 ? ", " : "", key->attr[i]);
    }
    ADD("], \"members\": %" PRId32 ", \"loaded\": %" PRId32 ", \"estimate\": %" PRId64
        ", \"forms\": [",
        key->members, entry->loaded, ticks_of(entry->estimate));
    for (int32_t i = 0; i < entry->n_forms; i++) {
        ADD("%s[%" PRId32 ", %" PRId64 "]", i > 0 ? ", " : "", entry->forms[i].form,
            ticks_of(entry->forms[i].seconds));
    }
    ADD("]}");
#undef ADD
}

/* ---- reading ---- */

/* Where reading stands; NULL once something was not as it must be. */
typedef struct line_cursor {
    const char *at;
} line_cursor;

static void skip(line_cursor *c, const char *text) {
    size_t n = strlen(text);
    c->at = c->at != NULL && strncmp(c->at, text, n) == 0 ? c->at + n : NULL;
}

static bool follows(const line_cursor *c, char byte) {
    return c->at != NULL && *c->at == byte;
}

/* A whole number in the only way it is written: no plus, no leading zero. */
static int64_t read_number(line_cursor *c, int64_t low, int64_t high) {
    int64_t value = 0;
    bool negative = follows(c, '-');
    const char *digits = c->at != NULL ? c->at + negative : "";
    const char *end = digits;
    while (*end >= '0' && *end <= '9' && value < INT64_MAX / 10) {
        value = 10 * value + (*end++ - '0'); /* what is left of a longer one is no comma */
    }
    value = negative ? -value : value;
    bool right = end > digits && (*digits != '0' || (end == digits + 1 && !negative)) &&
                 value >= low && value <= high;
    c->at = right ? end : NULL;
    return right ? value : low;
}

static double read_seconds(line_cursor *c, int64_t least) {
    return (double)read_number(c, least, MOST_TICKS) / TICKS;
}

/* A kernel's name up to its quote; its place in the device's list, or -1. */
static int32_t read_kernel(line_cursor *c, const device *dev) {
    const char *end = c->at != NULL ? memchr(c->at, '"', strnlen(c->at, NAME_BYTES)) : NULL;
    const char *name = c->at;
    c->at = end;
    for (int32_t i = 0; end != NULL && i < dev->n_kernels; i++) {
        size_t n = strlen(dev->kernels[i].name);
        if (n == (size_t)(end - name) && memcmp(dev->kernels[i].name, name, n) == 0) {
            return i;
        }
    }
    return -1;
}

static void read_key(line_cursor *c, const device *dev, cost_key *key) {
    skip(c, "{\"kernel\": \"");
    key->kernel = read_kernel(c, dev);
    skip(c, "\", \"m\": ");
    key->m = read_number(c, 1, MOST_DIM);
    skip(c, ", \"n\": ");
    key->n = read_number(c, 1, MOST_DIM);
    skip(c, ", \"k\": ");
    key->k = read_number(c, 0, MOST_DIM);
    skip(c, ", \"attr\": [");
    int n = 0;
    for (; n < LEAST_INTS || (n < IR_MAX_INTS && follows(c, ',')); n++) {
        skip(c, n > 0 ? ", " : "");
        key->attr[n] = (int32_t)read_number(c, INT32_MIN, INT32_MAX);
    }
    skip(c, n > LEAST_INTS && key->attr[n - 1] == 0 ? "no zero" : "], \"members\": ");
    key->members = (int32_t)read_number(c, 1, MOST_MEMBERS);
}

static void read_forms(line_cursor *c, cost_entry *entry) {
    skip(c, ", \"forms\": [");
    while (follows(c, '[') || (entry->n_forms > 0 && follows(c, ','))) {
        skip(c, entry->n_forms > 0 ? ", [" : "[");
        int32_t form = (int32_t)read_number(c, INT32_MIN, INT32_MAX);
        skip(c, ", ");
        double seconds = read_seconds(c, 1);
        skip(c, "]");
        if (entry->n_forms == DEVICE_MAX_FORMS || ebb__cost_entry_find(entry, form) >= 0) {
            c->at = NULL;
            return;
        }
        entry->forms[entry->n_forms++] = (cost_form){form, seconds};
    }
    skip(c, "]}");
}

const char *ebb__cost_line_read(const device *dev, const char *line, cost_entry *out) {
    line_cursor c = {line};
    out->n_forms = 0;
    memset(&out->key, 0, sizeof out->key);
    read_key(&c, dev, &out->key);
    skip(&c, ", \"loaded\": ");
    out->loaded = (int32_t)read_number(&c, 0, COST_MOST_LOADED);
    skip(&c, ", \"estimate\": ");
    out->estimate = read_seconds(&c, 0);
    if (c.at == NULL) {
        return "has an entry that makes no sense";
    }
    read_forms(&c, out);
    return follows(&c, '\0') ? NULL : "has times that make no sense";
}
