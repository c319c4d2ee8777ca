/* net_print.c - a net as text: what net_text.c reads. */
#include "model/net_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct print_buffer {
    alloc_region *region;
    char *text;
    size_t used, capacity;
} print_buffer;

static ebb_status put(print_buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static ebb_status put(print_buffer *b, const char *format, ...) {
    char piece[NET_MOST_NAME + 64];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof piece) {
        return ebb__fail(b->region->ctx, EBB_INTERNAL, "a piece of a net's text is too long");
    }
    TRY(ebb__region_grow(b->region, &b->text, &b->capacity, b->used + (size_t)n + 1, 1));
    memcpy(b->text + b->used, piece, (size_t)n + 1);
    b->used += (size_t)n;
    return EBB_OK;
}

/* Fewest digits that read back as the same double. */
static ebb_status put_real(print_buffer *b, double value) {
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    return put(b, " %s", digits);
}

static ebb_status put_value(print_buffer *b, const net_field *field, const net_numbers *n) {
    double first = ebb__net_value(n, field, 0), second = ebb__net_value(n, field, 1);
    switch (field->kind) {
    case NET_FLAG:
        return EBB_OK;
    case NET_REAL:
        return put_real(b, first);
    case NET_INT:
        return put(b, " %.0f", first);
    case NET_PAIR:
        break;
    }
    return first == second ? put(b, " %.0f", first) : put(b, " %.0fx%.0f", first, second);
}

/* Those that stand without a name always, others where they are not the usual ones. */
static ebb_status put_fields(print_buffer *b, const net_layer *layer) {
    net_numbers usual = ebb__net_usual(layer->op);
    const net_field *field;
    for (int32_t i = 0; (field = ebb__net_field(layer->op, i)) != NULL; i++) {
        bool plain = i < ebb__net_fields(layer->op).plain;
        bool same = true;
        for (int32_t part = 0; part < 2; part++) {
            same = same &&
                   ebb__net_value(&layer->n, field, part) == ebb__net_value(&usual, field, part);
        }
        if (!plain && same) {
            continue;
        }
        if (!plain) {
            TRY(put(b, " %s", field->name));
        }
        TRY(put_value(b, field, &layer->n));
    }
    return EBB_OK;
}

static ebb_status put_layer(print_buffer *b, const net_model *net, int32_t i) {
    const net_layer *layer = &net->layers[i];
    bool several = layer->op == NET_ADD || layer->op == NET_CONCAT;
    TRY(put(b, "%s: %s", layer->name, ebb__net_op_name(layer->op)));
    TRY(put_fields(b, layer));
    for (int32_t k = 0; k < layer->n_from; k++) {
        int32_t from = net_in(net, layer, k);
        if (several || from != i - 1) {
            TRY(put(b, " %s%s", several ? "" : "from=", net->layers[from].name));
        }
    }
    return put(b, "\n");
}

ebb_status ebb__net_print(net_model *net, const char **out) {
    print_buffer b = {.region = &net->region};
    const net_shape *image = &net->layers[0].out;
    TRY(put(&b, "input %" PRId32 " %" PRId32 " %" PRId32 "\n", image->channels, image->high,
            image->wide));
    for (int32_t i = 1; i < net->n_layers; i++) {
        TRY(put_layer(&b, net, i));
    }
    *out = b.text;
    return EBB_OK;
}
