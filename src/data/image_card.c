/* image_card.c - see image_card.h. Numbers are written with all their digits: what is read back is
 * the same to the last bit. */
#include "data/image_card.h"

#include "base/file.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

enum { CARD_MOST = 8 << 20 }; /* bytes of a file */

void ebb__image_card_free(image_card *card) {
    ebb__free(card->ctx, card->names);
    card->names = NULL;
    card->names_bytes = 0;
}

/* ---- writing ---- */

static json_t *pack_reals(const double *values, uint32_t n) {
    json_t *list = json_array();
    bool whole = list != NULL;
    for (uint32_t i = 0; whole && i < n; i++) {
        whole = json_array_append_new(list, json_real(values[i])) == 0;
    }
    if (!whole) {
        json_decref(list);
    }
    return whole ? list : NULL;
}

static json_t *pack_names(const image_card *card) {
    json_t *list = json_array();
    bool whole = list != NULL;
    for (size_t at = 0; whole && at < card->names_bytes; at += strlen(card->names + at) + 1) {
        whole = json_array_append_new(list, json_string(card->names + at)) == 0;
    }
    if (!whole) {
        json_decref(list);
    }
    return whole ? list : NULL;
}

/* The bytes of the file, which the caller frees. */
static ebb_status print_card(const image_card *card, char **text, size_t *bytes) {
    uint32_t channels = card->size.channels;
    ebb_status status;
    *text = NULL;
    json_t *root = json_pack("{s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "schema", 1, "height",
                             (json_int_t)card->size.height, "width", (json_int_t)card->size.width,
                             "channels", (json_int_t)channels, "classes", (json_int_t)card->classes,
                             "mean", pack_reals(card->mean, channels), "deviation",
                             pack_reals(card->deviation, channels), "names", pack_names(card));
    *bytes = root != NULL ? json_dumpb(root, NULL, 0, JSON_INDENT(1)) : 0;
    TRY_OUT(ebb__alloc(card->ctx, *bytes + 1, 1, text));
    if (*bytes == 0 || json_dumpb(root, *text, *bytes, JSON_INDENT(1)) != *bytes) {
        TRY_OUT(ebb__fail(card->ctx, EBB_NOMEM, "no memory to describe the images"));
    }
    (*text)[(*bytes)++] = '\n';
out:
    json_decref(root);
    return status;
}

ebb_status ebb__image_card_make(const image_set *set, image_card *out) {
    const image_facts *facts = &set->facts;
    char *text = NULL;
    size_t bytes = 0;
    ebb_status status;
    *out = (image_card){.ctx = set->ctx, .size = facts->size, .classes = facts->classes};
    for (uint32_t c = 0; c < facts->size.channels; c++) {
        out->mean[c] = ebb__image_mean(facts, c);
        out->deviation[c] = ebb__image_deviation(facts, c);
    }
    if (set->names_bytes > 0) {
        TRY(ebb__alloc(set->ctx, set->names_bytes, 1, &out->names));
        memcpy(out->names, set->names, set->names_bytes);
        out->names_bytes = set->names_bytes;
    }
    TRY_OUT(print_card(out, &text, &bytes));
    out->hash = XXH3_64bits(text, bytes);
out:
    ebb__free(set->ctx, text);
    return status;
}

ebb_status ebb__image_card_write(const image_card *card, const char *path) {
    file_writer file = {.ctx = card->ctx, .fd = -1};
    char *text = NULL;
    size_t bytes = 0;
    ebb_status status;
    TRY_OUT(print_card(card, &text, &bytes));
    TRY_OUT(ebb__file_create(card->ctx, path, &file));
    TRY_OUT(ebb__file_write(&file, text, bytes));
    TRY_OUT(ebb__file_commit(&file));
out:
    ebb__file_abandon(&file);
    ebb__free(card->ctx, text);
    return status;
}

/* ---- reading ---- */

static bool take_count(const json_t *root, const char *name, uint32_t most, uint32_t *out) {
    const json_t *number = json_object_get(root, name);
    json_int_t value = json_integer_value(number);
    bool good = json_is_integer(number) && value >= 1 && value <= (json_int_t)most;
    *out = good ? (uint32_t)value : 0;
    return good;
}

/* By channel, 0 to 255. */
static bool take_reals(const json_t *root, const char *name, uint32_t n, double *out) {
    const json_t *list = json_object_get(root, name);
    bool good = json_array_size(list) == n;
    for (uint32_t i = 0; good && i < n; i++) {
        const json_t *number = json_array_get(list, i);
        out[i] = json_number_value(number);
        good = json_is_number(number) && out[i] >= 0 && out[i] <= UINT8_MAX;
    }
    return good;
}

static bool names_fit(const json_t *list, uint32_t classes, size_t *bytes) {
    bool good = json_is_array(list) && json_array_size(list) <= classes;
    *bytes = 0;
    for (size_t i = 0; good && i < json_array_size(list); i++) {
        const json_t *name = json_array_get(list, i);
        size_t length = json_string_length(name);
        good = json_is_string(name) && ebb__image_name_sound(json_string_value(name), length);
        *bytes += length + 1;
    }
    return good;
}

static ebb_status take_card(const char *path, const json_t *root, image_card *out) {
    const json_t *names = json_object_get(root, "names");
    image_size *size = &out->size;
    size_t bytes = 0;
    if (json_integer_value(json_object_get(root, "schema")) != 1 ||
        !take_count(root, "height", IMAGE_MOST_SIDE, &size->height) ||
        !take_count(root, "width", IMAGE_MOST_SIDE, &size->width) ||
        !take_count(root, "channels", IMAGE_MOST_CHANNELS, &size->channels) ||
        !take_count(root, "classes", IMAGE_MOST_CLASSES, &out->classes) ||
        !take_reals(root, "mean", size->channels, out->mean) ||
        !take_reals(root, "deviation", size->channels, out->deviation) ||
        !names_fit(names, out->classes, &bytes)) {
        return ebb__fail(out->ctx, EBB_MODEL, "%s: does not describe images", path);
    }
    if (bytes == 0) {
        return EBB_OK;
    }
    TRY(ebb__alloc(out->ctx, bytes, 1, &out->names));
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *name = json_array_get(names, i);
        memcpy(out->names + out->names_bytes, json_string_value(name),
               json_string_length(name) + 1);
        out->names_bytes += json_string_length(name) + 1;
    }
    return EBB_OK;
}

ebb_status ebb__image_card_read(ebb_ctx *ctx, const char *path, image_card *out) {
    char *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    json_error_t error;
    ebb_status status;
    *out = (image_card){.ctx = ctx};
    if (!ebb__file_exists(path)) {
        return ebb__fail(ctx, EBB_MODEL,
                         "%s: is not there: it tells how the run's images are normalised", path);
    }
    TRY(ebb__file_read_all(ctx, path, CARD_MOST, &text, &bytes));
    root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        status =
            error.text[0] == '\0' || json_error_code(&error) == json_error_out_of_memory
                ? ebb__fail(ctx, EBB_NOMEM, "%s: no memory to read it", path)
                : ebb__fail(ctx, EBB_MODEL, "%s:%d: is not JSON: %s", path, error.line, error.text);
        goto out;
    }
    TRY_OUT(take_card(path, root, out));
    out->hash = XXH3_64bits(text, bytes);
out:
    json_decref(root);
    ebb__free(ctx, text);
    return status;
}
